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
    head = f"{result['dataset']:>14} {result['label']:<18}"
    for warning in result.get("warnings", []):
        say(f"{head} warning: {warning}")
    if result["outcome"] != "ok":
        say(f"{head} ended with {result['outcome']}: {result['reason']}")
