from pathlib import Path

from flrml.methods import add_methods
from flrml.pipeline.stages.growth import measure_growth
from flrml.pipeline.stages.logs import logged

with logged(snakemake.log[0]) as say:
    add_methods(snakemake.config["methods"])
    result = measure_growth(
        snakemake.output[0],
        data=Path(snakemake.input.meta).parent,
        run=snakemake.params.run,
        limits=snakemake.params.limits,
    )
    ended = ", ".join(f"{point['size']:,}: {point['outcome']}" for point in result["points"])
    say(f"{result['dataset']:>14} {result['method']:<18} growth with {result['axis']}: {ended}")
