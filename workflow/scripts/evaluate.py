from pathlib import Path

from flrml.lab.evaluation import evaluate, summary
from flrml.lab.logs import logged

with logged(snakemake.log[0]) as say:
    result = evaluate(
        Path(snakemake.input.meta).parent,
        snakemake.input.model,
        snakemake.input.record,
        snakemake.output.metrics,
        n_neighbors=snakemake.params.n_neighbors,
        scheduler=snakemake.config["dask_scheduler"],
    )
    say(summary(result))
