from pathlib import Path

from flrml.pipeline.stages.logs import logged
from flrml.pipeline.stages.variants import compare_variants

with logged(snakemake.log[0]) as say:
    result = compare_variants(
        snakemake.output[0],
        data=Path(snakemake.input.meta).parent,
        spectra={"plain": snakemake.input.plain, "centered": snakemake.input.centered},
        run=snakemake.params.run,
        limits=snakemake.params.limits,
    )
    say(f"{result['dataset']:>14} variants followed: {result['outcome']}")
