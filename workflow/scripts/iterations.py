from pathlib import Path

import flrml.pipeline.light_sklearn  # noqa: F401
from flrml.pipeline.logs import logged
from flrml.pipeline.stages.variants import compare_variants

with logged(snakemake.log[0]) as say:
    result = compare_variants(
        Path(snakemake.input.meta).parent,
        {"plain": snakemake.input.plain, "centered": snakemake.input.centered},
        snakemake.output[0],
        run=snakemake.params.run,
        ridges=snakemake.params.ridges,
        minutes=snakemake.params.minutes,
        memory_mb=snakemake.params.memory_mb,
    )
    say(f"{result['dataset']:>14} followed per iteration: {result['outcome']}")
