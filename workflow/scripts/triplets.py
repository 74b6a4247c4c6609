from pathlib import Path

from flrml.pipeline.stages.draw_triplets import draw_for_dataset
from flrml.pipeline.stages.logs import logged

with logged(snakemake.log[0]):
    draw_for_dataset(
        Path(snakemake.input.meta).parent,
        snakemake.output[0],
        n_triplets=snakemake.params.n_triplets,
        seed=int(snakemake.wildcards.seed),
    )
