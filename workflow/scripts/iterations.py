from pathlib import Path

from flrml.pipeline.stages.iterations import follow_methods
from flrml.pipeline.stages.logs import logged

with logged(snakemake.log[0]) as say:
    result = follow_methods(
        snakemake.output[0],
        data=Path(snakemake.input.meta).parent,
        triplets=snakemake.input.triplets,
        spectra={"plain": snakemake.input.plain, "centered": snakemake.input.centered},
        run=snakemake.params.run,
        limits=snakemake.params.limits,
    )
    say(f"{result['dataset']:>14} followed per iteration: {result['outcome']}")
