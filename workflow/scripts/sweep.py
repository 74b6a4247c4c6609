from pathlib import Path

from flrml.methods import add_methods
from flrml.pipeline.stages.logs import logged
from flrml.pipeline.stages.sweep import summary, sweep_point

with logged(snakemake.log[0]) as say:
    add_methods(snakemake.config["methods"])
    result = sweep_point(
        snakemake.output[0],
        data=Path(snakemake.input.meta).parent,
        spectrum=snakemake.input.get("spectrum") or None,
        run=snakemake.params.run,
        limits=snakemake.params.limits,
    )
    say(summary(result))
