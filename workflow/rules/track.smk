# Result files → MLflow, by a process that follows the results folder while jobs run.
from flrml.compat import lift_job_rate_limit
from flrml.pipeline.tracking.experiment import Follower, hide_credentials

hide_credentials()
# The result file of every run in MLflow: of each training and of each point of a sweep.
RUNS = [path for dataset in DATASETS for path in run_files(dataset)]
RUNS += [path for sweep in SWEEPS for path in sweep_files(sweep)]
FOLLOWER = Follower(RESULTS, config, RUNS, REPORT_FILES)


onstart:
    if not on_cluster():
        lift_job_rate_limit(workflow)
    FOLLOWER.start()


onsuccess:
    drawn = [Path(path).parent.name for path in REPORT_FILES if Path(path).exists()]
    counts = [(drawn.count(f"{kind}s"), kind) for kind in ("figure", "table")]
    said = " and ".join(f"{count} {kind}{'s' * (count != 1)}" for count, kind in counts)
    if drawn:
        logger.info(f"{said}: {RESULTS}/figures, {RESULTS}/tables")
    FOLLOWER.finish()


onerror:
    FOLLOWER.finish()
