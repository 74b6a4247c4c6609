import os
import warnings
from pathlib import Path

from flrml.datasets import prepare
from flrml.exceptions import FlrmlWarning
from flrml.pipeline.stages.logs import logged

with logged(snakemake.log[0]) as say, warnings.catch_warnings(record=True) as caught:
    name = snakemake.wildcards.dataset
    meta = prepare(
        snakemake.params.source,
        Path(snakemake.output.meta).parent,
        options=snakemake.params.options,
        # Not a parameter of the rule: the same files in another folder give the same data.
        raw_dir=os.environ.get("FLRML_RAW_DIR") or snakemake.config["raw_dir"],
        n_jobs=snakemake.threads,
    )
    train, test = (meta["splits"][part]["shape"] for part in ("train", "test"))
    say(f"{name:>14} prepared: {train[0]:,} + {test[0]:,} rows, {train[1]:,} features")
    for warning in caught:
        tell = say if issubclass(warning.category, FlrmlWarning) else print
        tell(f"{name:>14} {warning.message}")
    for difference in (meta["paper"] or {}).get("differences", []):
        say(f"{name:>14} differs from the paper in {difference}")
