from pathlib import Path

from flrml.pipeline.report import figures
from flrml.pipeline.report.captions import write_caption
from flrml.pipeline.stages.logs import logged

with logged(snakemake.log[0]) as say:
    stem = Path(snakemake.output[0]).with_suffix("")
    results = snakemake.input.get("results", [])
    results = [results] if isinstance(results, str) else list(results)
    draw = getattr(figures, f"draw_{stem.name}")
    draw(stem, results) if "results" in snakemake.input.keys() else draw(stem)  # noqa: SIM118
    write_caption(stem, snakemake.input.caption, results)
    say(f"drawn: {stem}.pdf")
