"""Write the captions of figures and tables, which the report shows."""

from pathlib import Path

from flrml.files import atomic_write


def write_caption(stem: str | Path, *paragraphs: str) -> None:
    """Write paragraphs that are not empty to ``stem``.rst, for a figure or table of that path without suffix."""
    with atomic_write(f"{stem}.rst") as beside:
        beside.write_text("\n\n".join(filter(None, paragraphs)) + "\n")
