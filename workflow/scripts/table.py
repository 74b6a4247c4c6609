from pathlib import Path

from flrml.datasets import load_meta, paper_table
from flrml.files import read_json
from flrml.pipeline import tables
from flrml.pipeline.logs import logged

with logged(snakemake.log[0]) as say:
    stem = Path(snakemake.output[0]).with_suffix("")
    results = list(snakemake.input.get("results", []))
    metas = [load_meta(Path(path).parent) for path in snakemake.input.get("metas", [])]
    names = {meta["name"]: meta["paper"]["name"] for meta in metas if meta["paper"]}
    seconds = {Path(path).parent.name: read_json(path)["seconds"] for path in snakemake.input.get("svd", [])}
    make = {
        "datasets": lambda: tables.dataset_table(paper_table(metas)),
        "summary": lambda: tables.summary_table(results, seconds),
        "complexity": lambda: tables.complexity_table(results),
        "with_svd": lambda: tables.comparison_table(results, 3, names, seconds),
        "without_svd": lambda: tables.comparison_table(results, 4, names, seconds),
        "reproduction": lambda: tables.reproduction_table(results, names),
    }
    make[stem.name]().write(stem)
    say(f"written: {stem}.md")
