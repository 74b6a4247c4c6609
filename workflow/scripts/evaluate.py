from pathlib import Path

from flrml.pipeline.stages.evaluate import evaluate, summary
from flrml.pipeline.stages.logs import logged

with logged(snakemake.log[0]) as say:
    result = evaluate(
        Path(snakemake.output.metrics).parent,
        data=Path(snakemake.input.meta).parent,
        n_neighbors=snakemake.params.n_neighbors,
        cosine_rows=snakemake.params.cosine_rows,
        scheduler=snakemake.config["dask_scheduler"],
    )
    say(summary(result))
