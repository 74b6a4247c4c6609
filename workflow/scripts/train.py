from pathlib import Path

from flrml.methods import add_methods
from flrml.pipeline.stages.logs import logged
from flrml.pipeline.stages.train import train

with logged(snakemake.log[0]) as say:
    add_methods(snakemake.config["methods"])
    result = train(
        Path(snakemake.output.model).parent,
        data=Path(snakemake.input.meta).parent,
        triplets=snakemake.input.triplets,
        spectrum=snakemake.input.get("spectrum") or None,
        run=snakemake.params.run,
        limits=snakemake.params.limits,
        scheduler=snakemake.config["dask_scheduler"],
    )
    if result["outcome"] != "ok":
        say(f"{result['dataset']:>14} {result['method']:<18} ended with {result['outcome']}: {result['reason']}")
