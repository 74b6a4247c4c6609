from pathlib import Path

import flrml.pipeline.light_sklearn  # noqa: F401
from flrml.pipeline.logs import logged
from flrml.pipeline.stages.evaluate import evaluate, summary

with logged(snakemake.log[0]) as say:
    evaluated = evaluate(
        Path(snakemake.input.meta).parent,
        snakemake.input.models,
        snakemake.input.records,
        snakemake.output.metrics,
        n_neighbors=snakemake.params.n_neighbors,
        scheduler=snakemake.config["dask_scheduler"],
    )
    for result in evaluated:
        say(summary(result))
