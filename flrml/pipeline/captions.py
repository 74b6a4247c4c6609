"""Write the captions of figures: what is shown, the claims of the paper about it, and whether the runs agree."""

from collections.abc import Iterable
from pathlib import Path

from flrml.files import atomic_write
from flrml.pipeline.claims import caption


def write_caption(stem: str | Path, shown: str | Path, results: Iterable[str]) -> None:
    """Write ``stem``.rst: the text that says what is shown, and a sentence per claim.

    Parameters
    ----------
    stem : path
        Path of the figure without its suffix.
    shown : path
        File with the text that says what is shown.
    results : iterable of paths
        The result files that the figure is drawn from.
    """
    text = Path(shown).read_text().strip()
    claims = caption(Path(stem).name, results)
    with atomic_write(f"{stem}.rst") as beside:
        beside.write_text(f"{text}\n\n{claims}".strip() + "\n")
