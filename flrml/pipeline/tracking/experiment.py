"""Log the run of a whole experiment: its figures, tables and configuration, with the other runs as its children.

``python -m flrml.pipeline.tracking.experiment config.yaml report.html`` adds the report of a finished experiment
to its run.
"""

import hashlib
import platform
import sys
import tempfile
import time
from collections.abc import Iterable
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import yaml

from flrml.files import read_json
from flrml.methods import METHODS
from flrml.pipeline.stages.provenance import provenance
from flrml.pipeline.tracking.tracker import KEY, RunRecord, Tracker
from flrml.pipeline.tracking.ui import configured

# Settings that the run shows as parameters; the configuration is an artifact.
SHOWN = ("seeds", "n_triplets", "max_rank", "n_neighbors", "minutes", "memory_mb")
FOLDERS = {"figures": (".png", ".pdf", ".csv"), "tables": (".md", ".csv")}


def log_experiment(
    tracker: Tracker,
    config: dict[str, Any],
    *,
    drawn: Iterable[str],
    results: Iterable[str],
    keys: Iterable[str],
) -> str:
    """Log the run of an experiment and make the runs of the given keys its children; return its id.

    Parameters
    ----------
    tracker : Tracker
        The experiment.
    config : dict
        Its configuration.
    drawn : iterable of paths
        One file of every figure and table; those beside it in other formats are taken too.
    results : iterable of paths
        The metrics of every trained and evaluated model.
    keys : iterable of str
        Keys of the children.
    """
    files = _artifacts(drawn)
    record = _record(config, files, [read_json(path) for path in results])

    def attach(run_id: str) -> None:
        for folder, path in files:
            tracker.client.log_artifact(run_id, str(path), folder)
        with tempfile.TemporaryDirectory() as folder:
            written = {
                "config.yaml": yaml.safe_dump(config, sort_keys=False, allow_unicode=True),
                "environment.txt": _environment(),
            }
            for name, text in written.items():
                (Path(folder) / name).write_text(text, encoding="utf-8")
                tracker.client.log_artifact(run_id, str(Path(folder) / name))

    run_id = tracker.log(record, complete=attach)
    wanted = set(keys) - {config["experiment"]}
    for run in tracker.runs():
        if run.data.tags[KEY] in wanted and run.data.tags.get("mlflow.parentRunId") != run_id:
            tracker.client.set_tag(run.info.run_id, "mlflow.parentRunId", run_id)
    return run_id


def main(config: str, report: str) -> int:
    """Add the report to the newest run of an experiment."""
    uri, experiment = configured(config)
    tracker = Tracker(uri, experiment)
    found = tracker.runs(experiment)
    for run in found:
        tracker.client.log_artifact(run.info.run_id, report)
        print(f"{report} is an artifact of the run {experiment!r} in MLflow")
    if not found:
        print(f"{report} is not in MLflow: experiment {experiment!r} has no finished run yet", file=sys.stderr)
    return 0


def _artifacts(drawn: Iterable[str]) -> list[tuple[str, Path]]:
    """Return every figure and table in all its formats, with the folder of MLflow that it goes to."""
    files = []
    for path in map(Path, drawn):
        folder = path.parent.name
        files += [(folder, path.with_suffix(suffix)) for suffix in FOLDERS[folder]]
    return [(folder, path) for folder, path in files if path.exists()]


def _record(config: dict[str, Any], files: list[tuple[str, Path]], results: list[dict]) -> RunRecord:
    """Return the record of an experiment, with the best accuracy on every data set."""
    ended = [result for result in results if result["outcome"] == "ok"]
    best: dict[str, dict] = {}
    for result in ended:
        if result["accuracy"] > best.get(result["dataset"], {"accuracy": -1})["accuracy"]:
            best[result["dataset"]] = result
    digest = hashlib.sha256()
    for _, path in files:
        digest.update(path.name.encode() + path.read_bytes())
    started = min((result["started"] for result in results), default=time.time())
    return RunRecord(
        key=config["experiment"],
        name=config["experiment"],
        parameters={name: config[name] for name in SHOWN if name in config}
        | {"datasets": ", ".join(config["datasets"]), "methods": ", ".join(config["methods"])},
        metrics={"runs": len(results), "failed": len(results) - len(ended)}
        | {f"best_accuracy/{dataset}": result["accuracy"] for dataset, result in best.items()},
        tags={"flrml.files": digest.hexdigest()[:16], "mlflow.source.git.commit": provenance()["git_commit"]},
        note=_description(config["experiment"], best, len(ended), len(results)),
        started=started,
        seconds=max((result["started"] for result in results), default=started) - started,
    )


def _description(experiment: str, best: dict[str, dict], ended: int, count: int) -> str:
    """Return the description of an experiment, in Markdown."""
    rows = [
        f"| {dataset} | {METHODS[result['method']].title} | {100 * result['accuracy']:.1f} % |"
        for dataset, result in best.items()
    ]
    return "\n".join(
        [
            f"Experiment **{experiment}**: {ended} of {count} trainings ended with a result.",
            "Every figure and table is under *Artifacts*, with the configuration and the environment.",
            "",
            "| data set | best method | accuracy |",
            "|---|---|---|",
            *rows,
        ]
    )


def _environment() -> str:
    """Return the platform and every installed package, one per line."""
    packages = sorted({f"{found.name}=={found.version}" for found in distributions()}, key=str.lower)
    return "\n".join([f"# {platform.platform()}, Python {platform.python_version()}", *packages]) + "\n"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
