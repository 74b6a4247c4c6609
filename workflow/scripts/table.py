from pathlib import Path

from flrml.datasets import load_meta, paper_table
from flrml.lab import tables
from flrml.lab.files import read_json
from flrml.lab.logs import logged

with logged(snakemake.log[0]) as say:
    stem = Path(snakemake.output[0]).with_suffix("")
    if stem.name == "datasets":
        table = tables.dataset_table(paper_table(load_meta(Path(path).parent) for path in snakemake.input.results))
    elif stem.name == "complexity":
        table = tables.complexity_table(snakemake.input.results)
    else:
        metas = [load_meta(Path(path).parent) for path in snakemake.input.metas]
        names = {meta["name"]: meta["paper"]["name"] for meta in metas if meta["paper"]}
        seconds = {Path(path).parent.name: read_json(path)["seconds"] for path in snakemake.input.get("svd", [])}
        number = 3 if stem.name == "with_svd" else 4
        table = tables.comparison_table(snakemake.input.results, number, names, seconds)
    table.write(stem)
    say(f"written: {stem}.md")
