from pathlib import Path

import flrml.pipeline.light_sklearn  # noqa: F401
from flrml.pipeline.logs import logged
from flrml.pipeline.stages.train import train

with logged(snakemake.log[0]) as say:
    result = train(
        Path(snakemake.input.meta).parent,
        snakemake.input.triplets,
        snakemake.input.get("spectrum") or None,
        snakemake.output.model,
        snakemake.output.record,
        run=snakemake.params.run,
        minutes=snakemake.params.minutes,
        memory_mb=snakemake.params.memory_mb,
        scheduler=snakemake.config["dask_scheduler"],
    )
    if result["outcome"] != "ok":
        say(f"{result['dataset']:>14} {result['method']:<18} ended with {result['outcome']}: {result['reason']}")
