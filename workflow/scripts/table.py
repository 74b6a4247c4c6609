from pathlib import Path

from flrml.methods import add_methods
from flrml.pipeline.report.captions import write_caption
from flrml.pipeline.report.results import Results, load_function
from flrml.pipeline.stages.logs import logged

with logged(snakemake.log[0]) as say:
    add_methods(snakemake.config["methods"])
    stem = Path(snakemake.output[0]).with_suffix("")
    results = Results.read(dict(snakemake.input.items()), missing=snakemake.params.missing)
    load_function(snakemake.params.function)(results).write(stem)
    write_caption(stem, snakemake.params.caption)
    say(f"written: {stem}.md")
