from pathlib import Path

from flrml.pipeline.stages.decompose import decompose_dataset
from flrml.pipeline.stages.logs import logged

with logged(snakemake.log[0]) as say:
    kind = snakemake.wildcards.kind
    timing = decompose_dataset(
        Path(snakemake.input.meta).parent,
        *snakemake.output,
        max_rank=snakemake.params.max_rank,
        kind=kind,
        seed=0,
        scheduler=snakemake.config["dask_scheduler"],
    )
    say(f"{snakemake.wildcards.dataset:>14} SVD ({kind}): rank {timing['rank']} in {timing['seconds']:.1f} s")
