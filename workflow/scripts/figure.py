from pathlib import Path

from flrml.methods import add_methods
from flrml.pipeline.report.captions import write_caption
from flrml.pipeline.report.claims import claims_shown
from flrml.pipeline.report.results import Results, load_function
from flrml.pipeline.stages.logs import logged

with logged(snakemake.log[0]) as say:
    add_methods(snakemake.config["methods"])
    stem = Path(snakemake.output[0]).with_suffix("")
    results = Results.read(dict(snakemake.input.items()), positions=snakemake.params.positions)
    load_function(snakemake.params.function)(stem, results)
    claims = claims_shown(stem.name, results) if snakemake.params.shows_claims else ""
    write_caption(stem, snakemake.params.caption, claims)
    say(f"drawn: {stem}.pdf")
