"""A store, a results folder, a small data set and a trained model, for the tests that log runs."""

import shutil

import pytest

from flrml.datasets import prepare
from flrml.pipeline.stages.draw_triplets import draw_for_dataset
from flrml.pipeline.stages.evaluate import evaluate
from flrml.pipeline.stages.train import train
from tests.pipeline.kinds import train_kinds
from tests.pipeline.tracked import TRAINING, Folder


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """A store that the tests of this module share: making one takes seconds."""
    return f"sqlite:///{tmp_path_factory.mktemp('store') / 'mlflow.db'}"


@pytest.fixture(autouse=True)
def _no_other_store(monkeypatch):
    """MLflow sets this variable when a test loads a model, and it would win over the store of the next test."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture
def folder(database, request, tmp_path):
    """A results folder whose experiment is the test's own."""
    return Folder(tmp_path / "results", database, request.node.name.translate({ord("["): "-", ord("]"): ""}))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "digits"
    prepare("digits", folder, options={"max_train": 200, "max_test": 50})
    return folder


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory, data):
    """A folder with the files of a trained and evaluated model."""
    folder = tmp_path_factory.mktemp("runs")
    draw_for_dataset(data, folder / "triplets.npy", n_triplets=4, seed=0)
    run = {"dataset": "digits", "method": "flrml", "seed": 0, "parameters": {"n_components": 10, "max_rank": 30}}
    limits = {"minutes": 1, "memory_mb": 3000}
    train(folder, data=data, triplets=folder / "triplets.npy", spectrum=None, run=run, limits=limits)
    evaluate(folder, data=data, n_neighbors=3)
    return folder


@pytest.fixture
def trained(folder, data, trained_once):
    """A results folder with a trained and evaluated model."""
    shutil.copytree(data, folder.results / "data" / "digits")
    shutil.copytree(trained_once, folder.results / TRAINING)
    return folder


@pytest.fixture(scope="session")
def trained_kinds(tmp_path_factory):
    """Results with a model of every kind of raw input, and the raw input."""
    return train_kinds(tmp_path_factory.mktemp("kinds"))
