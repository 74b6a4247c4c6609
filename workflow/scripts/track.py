from pathlib import Path

from flrml.files import write_json
from flrml.pipeline.layout import SWEEPS
from flrml.pipeline.stages.logs import logged
from flrml.pipeline.tracking.keys import tracking_uri
from flrml.pipeline.tracking.records import log_run, of_sweep
from flrml.pipeline.tracking.tracker import Tracker

with logged(snakemake.log[0]) as say:
    dataset, experiment = snakemake.wildcards.dataset, snakemake.params.experiment
    tracker = Tracker(tracking_uri(snakemake.params.tracking_uri), experiment)
    keys, parents = [], []
    for path, model in zip(snakemake.input.metrics, snakemake.input.models, strict=True):
        record = log_run(tracker, path, model, experiment, n_neighbors=snakemake.params.n_neighbors)
        keys.append(record.key)
        parents.append(record.key)
    for sweep in SWEEPS:
        points = snakemake.input.get(sweep, [])
        by_method = {}
        for path in [points] if isinstance(points, str) else points:
            by_method.setdefault(Path(path).parts[-3], []).append(path)
        for paths in by_method.values():
            record = of_sweep(paths, experiment)
            tracker.log(record)
            parents.append(record.key)
            keys += [record.key, *(child.key for child in record.children)]
    tracker.retire_all_but(keys, prefix=f"{experiment}/{dataset}/")
    write_json(snakemake.output[0], {"keys": keys, "parents": parents})
    say(f"{dataset:>14} logged {len(keys)} runs to MLflow, experiment {experiment}")
