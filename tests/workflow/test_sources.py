"""An edit of a module reruns the jobs that import it, asked of the real Snakemake."""

import re
import subprocess
import sys
from dataclasses import dataclass

import pytest

from flrml.methods import METHODS
from tests.workflow.project import TINY, Project

# What makes the results of each rule.
ENTRIES = {
    "prepare": {"datasets.preparation"},
    "triplets": {"pipeline.triplets"},
    "decompose": {"pipeline.decomposition"},
    "evaluate": {"pipeline.evaluation"},
    "track": {"pipeline.records"},
    "variants": {"pipeline.variants", "estimators", "reference", "ridge.estimator"},
    "figure_front": {"pipeline.figures"},
    "table_with_svd": {"pipeline.tables"},
}
# Imports a module and says what it imported. Packages are empty here: what their __init__ imports besides does not
# bear on the module's results. So is the registry, in which every method meets every other.
TRACE = """
import importlib, pathlib, sys, types

class Empty(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return importlib.import_module(self.__name__ + "." + name)
        except ModuleNotFoundError:
            return object

root = pathlib.Path(sys.argv[1])
for init in root.rglob("__init__.py"):
    name = ".".join(init.parent.relative_to(root.parent).parts)
    if name != "flrml." + sys.argv[2]:
        sys.modules[name] = Empty(name)
        sys.modules[name].__path__ = [str(init.parent)]
sys.modules["flrml.methods"] = Empty("flrml.methods")
importlib.import_module("flrml." + sys.argv[2])
print(*(m.__file__ for n, m in sys.modules.items() if n.startswith("flrml.") and "__file__" in vars(m)))
"""


def imported(project: Project, modules: set[str]) -> set[str]:
    """Files of the package that Python itself loads for some modules, the packages they lie in apart."""
    package, found = project.code / "flrml", set()
    for module in modules:
        command = [sys.executable, "-c", TRACE, str(package), module]
        said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=project.folder).stdout
        found |= {path.removeprefix(f"{package}/") for path in said.split()}
    return {path for path in found if not path.endswith("__init__.py")}


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
    expected = {rule: imported(project, entries) for rule, entries in ENTRIES.items()}
    for job in planned:
        if job.rule in expected:
            assert job.sources == expected[job.rule], job.rule
        elif job.rule == "train":
            method = next(name for name in TINY["methods"] if f"-{name}-" in job.log)
            place = METHODS[method].estimator.__module__.removeprefix("flrml.")
            assert job.sources == imported(project, {place, "pipeline.training"}), method


@pytest.mark.parametrize("method", METHODS)
def test_the_sources_of_every_method_are_what_python_imports(method, fresh):
    from flrml.pipeline.sources import source_files

    place = METHODS[method].estimator.__module__
    found = {path.split("flrml/", 1)[1] for path in source_files(place)}
    found = {path for path in found if not path.endswith("__init__.py")}
    assert found == imported(fresh, {place.removeprefix("flrml.")})


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


def test_imports_inside_functions_are_of_the_cluster_alone(fresh):
    """These are followed only if the configuration names a cluster."""
    for name in fresh.modules():
        if not name.startswith("distributed/"):
            text = (fresh.code / "flrml" / name).read_text()
            inside = re.findall(r"^ +(?:from|import) (flrml[\w.]*)", text, re.MULTILINE)
            assert {module.rsplit(".import", 1)[0] for module in inside} <= {"flrml.distributed"}, name
