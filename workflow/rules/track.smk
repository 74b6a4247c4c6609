# Result files → MLflow, by a process that follows the results folder while jobs run.
from flrml.compat import lift_job_rate_limit
from flrml.pipeline.tracking.experiment import Follower, hide_credentials

hide_credentials()
# The result file of every run in MLflow: of each training and of each point of a sweep.
RUNS = [path for dataset in DATASETS for path in run_files(dataset)]
RUNS += [path for sweep in SWEEPS for path in sweep_files(sweep)]


def describe_experiment():
    """Return the configuration, the result file of every run in MLflow, and a file of every figure and table."""
    return config, RUNS, [*FIGURE_FILES, *TABLE_FILES]


FOLLOWER = Follower(RESULTS, describe_experiment)


onstart:
    if not on_cluster():
        lift_job_rate_limit(workflow)
    FOLLOWER.start()


onsuccess:
    FOLLOWER.finish()
    for line in summary_lines(RESULTS, [*FIGURE_FILES, *TABLE_FILES]):
        logger.info(line)


onerror:
    FOLLOWER.finish()
