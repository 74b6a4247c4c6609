"""A copy of the repository's pipeline and a folder to run it in, driven by the real Snakemake."""

import json
import multiprocessing
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FILES = ("Snakefile", "config.yaml", "pyproject.toml")
PARTS = (*FILES, "envs", "flrml", "workflow", "profiles", "snakemake_logger_plugin_mlflow")
TINY = yaml.safe_load((ROOT / "workflow" / "configs" / "tiny.yaml").read_text()) | {"results": "results"}
del TINY["methods"]["flrml-ridge"]  # so that runs are short; its training has tests of its own
# Numbers that differ between two runs of the same thing.
CHANGING = re.compile(r"seconds|started|peak_mb|made_by|^training$")
MOST_SECONDS = 1800  # of one run; one that stalls is a failure
# Runs are forks of a process that has imported much of what Snakemake and the rules do: half the time of a dry run.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["snakemake.cli", "snakemake.notebook", "sklearn.neighbors", "pandas", "requests"])


def snakemake(arguments: list[str], folder: Path, environment: dict[str, str], said: Path) -> int:
    """Run Snakemake with these arguments in a folder, its output to a file; return its exit code."""
    process = FORKS.Process(target=_in_fork, args=(arguments, folder, environment, said))
    process.start()
    process.join(MOST_SECONDS)
    process.kill()
    process.join()
    return process.exitcode


def _in_fork(arguments: list[str], folder: Path, environment: dict[str, str], said: Path) -> None:
    assert "flrml" not in sys.modules
    from snakemake.cli import main

    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:0] = [str(folder)]
    sys.argv[1:] = arguments
    with said.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    main(arguments)


class Project:
    """Code and results in one folder, so that a test can change both."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.variables: dict[str, str] = {}
        self.code = folder / "code"
        self.work = folder / "work"
        self.results = self.work / "results"

    @classmethod
    def create(cls, folder: Path) -> "Project":
        """A new project without results."""
        project = cls(folder)
        project.work.mkdir(parents=True)
        for part in PARTS:
            source, target = ROOT / part, project.code / part
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        return project

    def copy(self, folder: Path) -> "Project":
        """The same at another place."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return Project(folder)

    def command(self, *arguments: str, config: dict[str, Any] | None = None) -> list[str]:
        """The Snakemake command for this project, on the tiny configuration or a given one."""
        path = self.folder / "config.yaml"
        path.write_text(yaml.safe_dump({"results": "results"} | (config or TINY)))
        command = [sys.executable, "-m", "snakemake", "--snakefile", str(self.code / "Snakefile"), "--cores", "2"]
        return [*command, "--configfile", str(path), "--directory", str(self.work), *arguments]

    @property
    def environment(self) -> dict[str, str]:
        """Jobs import the copy of the package; a test's own variables win."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLRML_", "MLFLOW_"))}
        changed = {"PYTHONPATH": str(self.code), "OMP_NUM_THREADS": "1", "MLFLOW_DISABLE_TELEMETRY": "true"}
        return kept | changed | self.variables

    def run(self, *arguments: str, config: dict[str, Any] | None = None, ok: bool = True) -> str:
        """Run Snakemake and return all that it says; a failure is an error unless it is expected."""
        said = self.folder / "said.log"
        code = snakemake(self.command(*arguments, config=config)[3:], self.code, self.environment, said)
        assert (code == 0) == ok, said.read_text()
        return said.read_text()

    def planned(self, *arguments: str, config: dict[str, Any] | None = None) -> Counter:
        """How many jobs of each rule Snakemake would run; the rule `all` apart."""
        said = self.run("--dry-run", *arguments, config=config)
        return Counter(_rules(said))

    def executed(self, *arguments: str, config: dict[str, Any] | None = None) -> Counter:
        """Run Snakemake; how many jobs of each rule it ran, the rule `all` apart."""
        return Counter(_rules(self.run("--workflow-profile", "none", *arguments, config=config)))

    def edit(self, name: str, old: str, new: str) -> None:
        """Change a line of the package."""
        path = self.code / "flrml" / name
        text = path.read_text()
        assert old in text
        time.sleep(0.01)
        path.write_text(text.replace(old, new))

    def append_comment(self, *names: str) -> None:
        """Edit modules of the package without changing what they do."""
        for name in names:
            with (self.code / "flrml" / name).open("a") as file:
                file.write("# edited\n")

    def modules(self) -> list[str]:
        """Files of the package, relative to it."""
        package = self.code / "flrml"
        return sorted(str(path.relative_to(package)) for path in package.rglob("*.py"))

    def runs(self, *, every: bool = False) -> list[dict[str, Any]]:
        """The newest runs in the MLflow database, or all that are not deleted: id, status, tags and metrics."""
        with sqlite3.connect(self.work / "mlflow.db") as database:
            # The experiment of a copied project is renamed, and logged to a new one.
            alive = (
                "SELECT run_uuid, status FROM runs JOIN experiments USING (experiment_id) "
                "WHERE runs.lifecycle_stage = 'active' AND experiments.name = ?"
            )
            rows = database.execute(alive, (TINY["experiment"],)).fetchall()
            found = [{"id": run_id, "status": status} for run_id, status in rows]
            for run in found:
                for table in ("tags", "latest_metrics"):
                    rows = database.execute(f"SELECT key, value FROM {table} WHERE run_uuid = ?", (run["id"],))
                    run[table] = dict(rows.fetchall())
        database.close()
        return [run for run in found if every or run["tags"].get("flrml.newest") == "true"]

    def sync(self) -> None:
        """Make MLflow agree with the results, as `make ui` does first."""
        command = [sys.executable, "-m", "flrml.pipeline", "follow", "results"]
        subprocess.run(command, cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL, check=True)

    def numbers(self) -> dict[str, Any]:
        """Everything that the results say, times and memory apart, by file."""
        places = ("runs", "sweeps", "iterations", "data")
        found = sorted(path for place in places for path in (self.results / place).rglob("*.json"))
        return {str(path.relative_to(self.results)): _lasting(json.loads(path.read_text())) for path in found}


def _rules(said: str) -> list[str]:
    return [name for name in re.findall(r"^ *(?:local)?rule (\w+):$", said, re.MULTILINE) if name != "all"]


def _lasting(content: Any) -> Any:
    """A JSON value without what differs from run to run."""
    if isinstance(content, dict):
        return {key: _lasting(value) for key, value in content.items() if not CHANGING.search(key)}
    if isinstance(content, list):
        return [_lasting(value) for value in content]
    return content
