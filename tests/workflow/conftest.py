import shutil

import pytest
from filelock import FileLock

from tests.workflow.project import Project


@pytest.fixture(scope="session")
def finished(tmp_path_factory, worker_id) -> Project:
    """A project in which the tiny experiment has run, made once for all workers; not to be changed."""
    shared = tmp_path_factory.getbasetemp()
    shared = (shared if worker_id == "master" else shared.parent) / "tiny"
    with FileLock(f"{shared}.lock"):
        if not shared.exists():
            try:
                Project.create(shared).run()
            except BaseException:
                shutil.rmtree(shared, ignore_errors=True)
                raise
    return Project(shared)


@pytest.fixture
def project(finished, tmp_path) -> Project:
    """A copy of the finished project that a test may change."""
    return finished.copy(tmp_path / "project")


@pytest.fixture
def fresh(tmp_path) -> Project:
    """A project in which nothing has run."""
    return Project.create(tmp_path / "project")
