from pathlib import Path

from flrml.datasets import load_meta, paper_table
from flrml.files import read_json
from flrml.pipeline.report import comparison
from flrml.pipeline.report.claims import Evidence
from flrml.pipeline.stages.logs import logged


def inputs(name):
    """Return the input files of that name as a list."""
    return [files] if isinstance(files := snakemake.input.get(name, []), str) else list(files)


with logged(snakemake.log[0]) as say:
    stem, missing = Path(snakemake.output[0]).with_suffix(""), snakemake.params.missing
    results = inputs("results")
    metas = [load_meta(Path(path).parent) for path in inputs("metas")]
    paths = zip(inputs("metas"), metas, strict=True)
    names = {Path(path).parent.name: meta["paper"]["name"] for path, meta in paths if meta["paper"]}
    seconds = {Path(path).parent.name: read_json(path)["seconds"] for path in inputs("svd")}
    make = {
        "datasets": lambda: comparison.dataset_table(paper_table(metas), missing),
        "summary": lambda: comparison.summary_table(results, seconds),
        "complexity": lambda: comparison.complexity_table(inputs("growth")),
        "with_svd": lambda: comparison.comparison_table(results, 3, names, seconds, missing),
        "without_svd": lambda: comparison.comparison_table(results, 4, names, seconds, missing),
        "memory": lambda: comparison.memory_table(results),
        "reproduction": lambda: comparison.reproduction_table(results, names),
        "splits": lambda: comparison.splits_table(results),
        "claims": lambda: comparison.claims_table(
            Evidence.read(
                results, *(inputs(kind) for kind in ("margin", "batches", "growth", "steps")), svd_seconds=seconds
            )
        ),
    }
    make[stem.name]().write(stem)
    say(f"written: {stem}.md")
