from pathlib import Path

from flrml.files import atomic_write
from flrml.methods import add_methods
from flrml.pipeline.report.claims import claims_shown
from flrml.pipeline.report.results import Results, load_function
from flrml.pipeline.stages.logs import logged

with logged(snakemake.log[0]) as say:
    add_methods(snakemake.config["methods"])
    stem = Path(snakemake.output[0]).with_suffix("")
    results = Results.read(dict(snakemake.input.items()), snakemake.params.missing, snakemake.params.positions)
    function = load_function(snakemake.params.function)
    if stem.parent.name == "figures":
        function(stem, results)
    else:
        function(results).write(stem)
    claims = claims_shown(stem.name, results) if snakemake.params.shows_claims else ""
    with atomic_write(f"{stem}.rst") as caption:
        caption.write_text("\n\n".join(filter(None, [snakemake.params.caption, claims])) + "\n")
    say(f"written: {snakemake.output[0]}")
