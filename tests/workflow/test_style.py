"""The workflow's files, in step with the package."""

import tomllib

import yaml
from packaging.requirements import Requirement

from tests.workflow.project import ROOT


def test_the_conda_environment_is_in_step_with_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    # The extra `pipeline` names those that it includes in its first line.
    included, *pipeline = extras["pipeline"]
    assert included == "flrml[data,baselines]"
    wanted = project["dependencies"] + extras["data"] + extras["baselines"] + pipeline + extras["dask"]
    *tools, packages = yaml.safe_load((ROOT / "envs" / "flrml.yaml").read_text())["dependencies"]
    assert tools == ["python=3.11", "pip"]
    found = [Requirement(package) for package in packages["pip"]]
    assert [(each.name, each.extras) for each in found] == [
        (each.name, each.extras) for each in map(Requirement, wanted)
    ]
    lock = (ROOT / "requirements.lock").read_text()
    for package in found:
        assert f"{package.name}{package.specifier}" in lock, "run `make lock`"


def test_scripts_are_thin():
    for script in (ROOT / "workflow" / "scripts").glob("*.py"):
        assert len(script.read_text().splitlines()) < 40, script.name
