"""An edit of a module reruns the jobs that import it, asked of the real Snakemake."""

import re
import subprocess
import sys
from dataclasses import dataclass

import pytest

from flrml.methods import METHODS
from flrml.pipeline.sources import source_files
from tests.workflow.project import TINY, Project

# What makes the results of each rule.
ENTRIES = {
    "triplets": {"pipeline.stages.draw_triplets"},
    "decompose": {"pipeline.stages.decompose"},
    "evaluate": {"pipeline.stages.evaluate"},
    "iterations": {"pipeline.stages.iterations", "flrml", "reference", "ridge.estimator"},
    "figure_pareto": {"pipeline.report.figures.beyond"},
    "figure_margin": {"pipeline.report.figures.printed", "pipeline.report.claims"},
    "table_with_svd": {"pipeline.report.comparison"},
    "table_claims": {"pipeline.report.claims"},
}
READERS = {"digits": "datasets.bundled", "shapes10-16": "datasets.modelnet.shapes"}
# Imports each module in a process of its own and says what it imported. The packages of flrml are empty here: what
# their __init__ imports besides does not bear on the module's results; only that of flrml.rows is imported from. So
# are the registries: an entry is a parameter of the rules.
TRACE = """
import importlib, os, pathlib, sys, types
import numpy, scipy.sparse, scipy.linalg, sklearn.utils, sklearn.neighbors  # once for all

class Empty(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return importlib.import_module(self.__name__ + "." + name)
        except ModuleNotFoundError:
            return object

root = pathlib.Path(sys.argv[1])
for wanted in sys.argv[2:]:
    if os.fork() == 0:
        for init in root.rglob("__init__.py"):
            name = ".".join(init.parent.relative_to(root.parent).parts)
            if name not in ("flrml." + wanted, "flrml.rows"):
                sys.modules[name] = Empty(name)
                sys.modules[name].__path__ = [str(init.parent)]
        for registry in ("flrml.methods", "flrml.datasets.registry"):
            sys.modules[registry] = Empty(registry)
        importlib.import_module("flrml." + wanted)
        loaded = [m.__file__ for n, m in sys.modules.items() if n.startswith("flrml.") and "__file__" in vars(m)]
        print(wanted, *loaded, flush=True)
        os._exit(0)
    assert os.wait()[1] == 0, wanted
"""


def imports(project: Project, modules: set[str]) -> dict[str, set[str]]:
    """Files of the package that Python itself loads for each module, the packages they lie in apart."""
    package = project.code / "flrml"
    command = [sys.executable, "-c", TRACE, str(package), *sorted(modules)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=project.folder).stdout
    found = {}
    for line in said.splitlines():
        module, *paths = line.split()
        files = {path.removeprefix(f"{package}/") for path in paths}
        found[module] = {path for path in files if not path.endswith("__init__.py")}
    return found


def module_of(method: str) -> str:
    return METHODS[method].estimator.__module__.removeprefix("flrml.")


@dataclass(frozen=True)
class Job:
    """A planned job: its rule, its log, which names it, and the files of the package that it depends on."""

    rule: str
    log: str
    sources: frozenset[str]
    follows: bool  # whether it is planned because another job is


def jobs(said: str) -> list[Job]:
    """The jobs of a dry run."""
    found = []
    for text in re.split(r"\n(?= *(?:local)?rule )", said):
        rule, log = re.match(r" *(?:local)?rule (\w+):", text), re.search(r"\n +log: (\S+)", text)
        inputs = re.search(r"\n +input: (.*)", text)
        if rule and log and inputs:
            files = re.findall(r"flrml/([\w/]+\.py)", inputs[1])
            sources = frozenset(path for path in files if not path.endswith("__init__.py"))
            found.append(Job(rule[1], log[1], sources, "Input files updated by another job" in text))
    return found


def test_every_job_depends_on_what_it_imports_and_on_nothing_else(project):
    project.append_comment(*project.modules())
    planned = jobs(project.run("--dry-run"))
    assert {job.rule for job in planned} >= set(ENTRIES) | {"train", "sweep", "growth"}
    modules = {
        "datasets.preparation",
        *READERS.values(),
        "pipeline.stages.train",
        *map(module_of, TINY["methods"]),
    }.union(*ENTRIES.values())
    found = imports(project, modules)
    for job in planned:
        if job.rule in ENTRIES:
            assert job.sources == set().union(*(found[entry] for entry in ENTRIES[job.rule])), job.rule
        elif job.rule == "prepare":
            reader = next(module for name, module in READERS.items() if f"/{name}.log" in job.log)
            assert job.sources == found["datasets.preparation"] | found[reader], reader
        elif job.rule == "train":
            method = next(name for name in TINY["methods"] if f"-{name}-" in job.log)
            assert job.sources == found[module_of(method)] | found["pipeline.stages.train"], method


def test_the_sources_of_every_method_are_what_python_imports(fresh):
    found = imports(fresh, set(map(module_of, METHODS)))
    for method in METHODS:
        files = {path.split("flrml/", 1)[1] for path in source_files(f"flrml.{module_of(method)}")}
        assert {path for path in files if not path.endswith("__init__.py")} == found[module_of(method)], method


@pytest.mark.slow
def test_an_edit_of_each_module_in_turn_reruns_its_jobs_and_those_after_them(project):
    before = {name: (project.code / "flrml" / name).read_text() for name in project.modules()}
    project.append_comment(*before)
    every = jobs(project.run("--dry-run"))
    for name, text in before.items():
        (project.code / "flrml" / name).write_text(text)
    assert project.planned() == {}
    for name, text in before.items():
        if name.endswith("__init__.py"):
            continue
        project.append_comment(name)
        planned = jobs(project.run("--dry-run"))
        assert {job.log for job in planned} >= {job.log for job in every if name in job.sources}, name
        assert all(name in job.sources or job.follows for job in planned), name
        (project.code / "flrml" / name).write_text(text)


def test_imports_inside_functions_do_not_bear_on_results(fresh):
    """The cluster's are followed if the configuration names one; downloads are verified by their digests."""
    without_results = ("distributed/", "pipeline/serving/", "pipeline/tracking/")
    for name in fresh.modules():
        if not name.startswith(without_results):
            text = re.sub(r"if TYPE_CHECKING:\n(    .*\n)+", "", (fresh.code / "flrml" / name).read_text())
            inside = re.findall(r"^ +(?:from|import) (flrml[\w.]*)", text, re.MULTILINE)
            assert set(inside) <= {"flrml.distributed", "flrml.datasets.download"}, name
