from pathlib import Path

from flrml.files import write_json
from flrml.pipeline.logs import logged
from flrml.pipeline.records import log_model, of_run, of_sweep
from flrml.pipeline.sweeps import SWEEPS
from flrml.pipeline.tracking import Tracker, tracking_uri

with logged(snakemake.log[0]) as say:
    data = Path(snakemake.input.meta).parent
    dataset, experiment = snakemake.wildcards.dataset, snakemake.params.experiment
    tracker = Tracker(tracking_uri(snakemake.params.tracking_uri), experiment)
    logged_runs, keys = {}, []
    for path, model in zip(snakemake.input.metrics, snakemake.input.models, strict=True):
        record = of_run(path, experiment)
        run_id = logged_runs[record.key] = tracker.log(record)
        if record.failure is None:
            log_model(tracker, run_id, data, model, n_neighbors=snakemake.params.n_neighbors)
        keys.append(record.key)
    for sweep in SWEEPS:
        points = snakemake.input.get(sweep, [])
        by_method = {}
        for path in [points] if isinstance(points, str) else points:
            by_method.setdefault(Path(path).parent.name, []).append(path)
        for paths in by_method.values():
            record = of_sweep(paths, experiment, sweep)
            logged_runs[record.key] = tracker.log(record)
            keys += [record.key, *(child.key for child in record.children)]
    tracker.keep_only(keys, prefix=f"{experiment}/{dataset}/")
    write_json(snakemake.output[0], logged_runs)
    say(f"{dataset:>14} logged {len(keys)} runs to MLflow, experiment {experiment}")
