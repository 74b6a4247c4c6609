from pathlib import Path

import flrml.pipeline.light_sklearn  # noqa: F401
from flrml.pipeline.logs import logged
from flrml.pipeline.stages.draw_triplets import draw_for_dataset

with logged(snakemake.log[0]):
    draw_for_dataset(
        Path(snakemake.input.meta).parent,
        snakemake.output[0],
        n_triplets=snakemake.params.n_triplets,
        seed=int(snakemake.wildcards.seed),
    )
