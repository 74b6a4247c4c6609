import tempfile
from pathlib import Path

import pytest

from tests.slurm.cluster import missing, slurm
from tests.workflow.conftest import finished, fresh  # noqa: F401 - fixtures


@pytest.fixture(scope="session")
def cluster():
    """Variables under which commands find a running SLURM of one node."""
    if missing():
        pytest.skip(f"no SLURM on this machine: {', '.join(missing())} not installed")
    with tempfile.TemporaryDirectory(prefix="slurm") as folder, slurm(Path(folder)) as environment:
        yield {name: environment[name] for name in ("SLURM_CONF", "PATH")}


@pytest.fixture
def submitting(cluster, fresh):  # noqa: F811
    """A project whose jobs go to SLURM; its runs go to SQLite, which only the main process writes."""
    fresh.variables = dict(cluster)
    return fresh
