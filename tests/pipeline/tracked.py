"""Results folders with hand-made files and their runs, and processes that start at once."""

import multiprocessing
from pathlib import Path

from mlflow import MlflowClient

from flrml.files import write_json
from flrml.pipeline.stages.progress import Progress
from flrml.pipeline.tracking.experiment import write_experiment
from flrml.pipeline.tracking.mlflow_store import NEWEST
from flrml.pipeline.tracking.sync import KEY, Sync

TRAINING = "runs/digits/flrml/seed0"
CONFIG = {"n_neighbors": 3, "seeds": [0], "max_rank": 60, "datasets": {"digits": {}}, "methods": {"flrml": {}}}


class Folder:
    """A results folder whose configuration asks for one training, unless told otherwise."""

    def __init__(self, results: Path, uri: str, experiment: str = "test"):
        self.results = results
        self.config = CONFIG | {"experiment": experiment, "tracking_uri": uri}
        self.ask(TRAINING)

    def ask(self, *runs, drawn=()):
        """Describe the experiment, as the start of a Snakemake run does."""
        files = [self.results / run / "metrics.json" for run in runs]
        write_experiment(self.results, self.config, files, [self.results / path for path in drawn])

    def write(self, content, folder=TRAINING):
        """Write the result of a training or of a point."""
        write_json(self.results / folder / ("point.json" if "points" in content else "metrics.json"), content)

    def train(self, training, folder=TRAINING):
        """Start a training in this process."""
        run = {"dataset": "digits", "method": "flrml", "started": 1_700_000_000.0, "training": training}
        return Progress(self.results / folder, run).__enter__()

    def sync(self, *, final=True):
        """Sync as a new process does."""
        Sync(self.results)(final=final)

    @property
    def client(self):
        return MlflowClient(self.config["tracking_uri"])

    def runs(self, key="digits/flrml/0", *, every=True):
        """Runs of a key, or those whose key starts with it if it ends with an asterisk; the first one first."""
        number = self.client.get_experiment_by_name(self.config["experiment"]).experiment_id
        wanted = f"{self.config['experiment']}/{key}".rstrip("/")
        found = self.client.search_runs([number], order_by=["attributes.start_time"])
        if key.endswith("*"):
            found = [
                run for run in found if run.data.tags[KEY].startswith(wanted.rstrip("*") if key != "*" else "")
            ]
        else:
            found = [run for run in found if run.data.tags[KEY] == wanted]
        return [run for run in found if every or run.data.tags[NEWEST] == "true"]

    def states(self, key="digits/flrml/0"):
        """Status and mark of the runs of a key, by the training that they belong to."""
        return {run.data.tags["flrml.training"]: (run.info.status, run.data.tags[NEWEST]) for run in self.runs(key)}


def by_name(runs):
    return {run.info.run_name: run for run in runs}


def in_processes(count, work):
    """Run work(number) in forked processes that start at once; return their exit codes."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(count)

    def start(number):
        barrier.wait()
        work(number)

    started = [context.Process(target=start, args=(number,)) for number in range(count)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    return [process.exitcode for process in started]
