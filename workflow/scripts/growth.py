from pathlib import Path

import flrml.pipeline.light_sklearn  # noqa: F401
from flrml.pipeline.logs import logged
from flrml.pipeline.stages.sweep import measure_growth

with logged(snakemake.log[0]) as say:
    result = measure_growth(
        Path(snakemake.input.meta).parent,
        snakemake.output[0],
        run=snakemake.params.run,
        axis=snakemake.wildcards.axis,
        sizes=snakemake.params.sizes,
        minutes=snakemake.params.minutes,
        memory_mb=snakemake.params.memory_mb,
    )
    ended = ", ".join(f"{point['size']:,}: {point['outcome']}" for point in result["points"])
    say(f"{result['dataset']:>14} {result['method']:<18} growth with {result['axis']}: {ended}")
