"""Workers that die, join and have little memory; a scheduler and workers started by their own commands."""

import copy
import os
import random
import signal
import threading
import time
from collections import Counter

import dask.array as da
import numpy as np
import pytest
from distributed import Client, wait
from sklearn.base import clone

from flrml import FLRML, MFLRML, RidgeFLRML, knn_accuracy
from flrml.datasets.store import open_groups
from flrml.distributed import cluster, open_split
from flrml.distributed.cluster import ClusterLostError
from flrml.pipeline.stages.inputs import load_rows
from tests.distributed.conftest import blocks, workers
from tests.workflow.conftest import finished, fresh  # noqa: F401 - fixtures
from tests.workflow.project import TINY

pytestmark = pytest.mark.slow
SIZES = [300, 300, 300, 300]
TRIALS = int(os.environ.get("FLRML_TRIALS", "3"))  # of each loss of workers


def pids(client):
    """Process of every worker."""
    return client.run(os.getpid)


def kill_one(client):
    """Kill a worker's process with signal 9."""
    os.kill(min(pids(client).values()), signal.SIGKILL)


def test_flrml_survives_the_death_of_a_worker(digits):
    X, y, *_ = digits
    expected = FLRML(10, max_iter=5, random_state=0).fit(X, y)
    with workers(2) as client:
        victim = min(pids(client).values())
        model = FLRML(10, max_iter=5, random_state=0)
        model.fit(blocks(X, SIZES), y, callback=lambda model: kill_one(client) if model.n_iter_ == 2 else None)
        assert victim not in pids(client).values()
    assert np.abs(model.components_ - expected.components_).max() <= 1e-6 * np.abs(expected.components_).max()


@pytest.mark.parametrize("restarted", [True, False], ids=["restarted", "gone"])
def test_mflrml_survives_the_death_of_a_worker(digits, processes, restarted):
    X, y, *_ = digits
    settings = {"n_components": 10, "n_batches": 8, "random_state": 0}
    expected = MFLRML(**settings).fit(X, y)
    for _ in range(2):
        processes.worker("--nanny" if restarted else "--no-nanny")
    with Client(processes.address, timeout=60) as client:
        client.wait_for_workers(2, timeout=120)
        rows = client.persist(blocks(X, SIZES))
        wait(rows)

        def disturb(model):
            if model.n_iter_ == 3:
                kill_one(client)

        found = MFLRML(**settings).fit(rows, y, callback=disturb)
    assert np.abs(found.components_ - expected.components_).max() <= 1e-6 * np.abs(expected.components_).max()


def test_the_loss_of_all_workers_on_the_way_to_a_result_is_one_clear_error(monkeypatch, processes):
    started = processes.worker("--no-nanny")
    with Client(processes.address, timeout=60) as client:
        client.wait_for_workers(1, timeout=120)
        futures = client.map(abs, range(3))
        wait(futures)
        original = client.scheduler.gather

        async def kill_and_gather(**arguments):
            started.kill()
            return await original(**arguments)

        monkeypatch.setattr(client.scheduler, "gather", kill_and_gather)
        monkeypatch.setattr(cluster, "PATIENCE_SECONDS", 4.0)
        with pytest.raises(ClusterLostError, match="are gone"):
            cluster.gather(client, futures)


@pytest.mark.parametrize("Estimator", [FLRML, MFLRML])
def test_workers_that_freeze_are_one_clear_error(monkeypatch, digits, processes, Estimator):
    """Their connections stay open, and the scheduler still counts them as running."""
    X, y, *_ = digits
    started = [processes.worker("--no-nanny") for _ in range(2)]
    monkeypatch.setattr(cluster, "PATIENCE_SECONDS", 15.0)
    with Client(processes.address, timeout=60) as client:
        client.wait_for_workers(2, timeout=120)

        def freeze_all(model):
            if model.n_iter_ == 2:
                for worker in started:
                    worker.send_signal(signal.SIGSTOP)

        with pytest.raises(ClusterLostError, match="workers of the Dask cluster no longer answer"):
            Estimator(10, random_state=0).fit(blocks(X, SIZES), y, callback=freeze_all)
        for worker in started:
            worker.send_signal(signal.SIGCONT)


@pytest.fixture
def impatient(monkeypatch):
    """A scheduler that gives up silent workers after half a minute, not after five."""
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL", "30 s")


@pytest.mark.parametrize("whom", ["one", "all"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_losses_at_random_moments_end_in_the_right_result_or_one_clear_error(
    digits, impatient, processes, whom, how
):
    X, y, *_ = digits
    moments, outcomes = random.Random(f"{whom} {how}"), Counter()
    models = [
        RidgeFLRML(10, ridge=1.0, within=0.9, local=0.1, rounds=2, random_state=0),
        FLRML(10, max_iter=5, random_state=0),
        MFLRML(10, n_batches=8, random_state=0),
    ]
    for number in range(TRIALS):
        model = models[number % len(models)]
        expected = clone(model).fit(X, y).components_
        started = [processes.worker("--no-nanny") for _ in range(2)]
        with Client(processes.address, timeout=60) as client:
            client.wait_for_workers(2, timeout=120)
            model.fit(blocks(X, SIZES), y)  # imports
            before = time.monotonic()
            model.fit(blocks(X, SIZES), y)
            victims = started if whom == "all" else started[:1]
            moment = moments.uniform(0, time.monotonic() - before)
            timer = threading.Timer(moment, lambda victims=victims: [victim.send_signal(how) for victim in victims])
            timer.start()
            try:
                found = clone(model).fit(blocks(X, SIZES), y).components_
            except ClusterLostError:
                outcomes["one clear error"] += 1
            else:
                outcomes["the right result"] += 1
                assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()
            timer.join()
            for worker in started:
                worker.kill()
                worker.wait()
    print(f"{whom}, {how.name}: {dict(outcomes)}")
    assert whom == "all" or outcomes["one clear error"] == 0


@pytest.mark.parametrize("Estimator", [FLRML, MFLRML])
def test_the_loss_of_all_workers_is_one_clear_error(digits, processes, Estimator):
    X, y, *_ = digits
    started = [processes.worker("--no-nanny") for _ in range(2)]
    with Client(processes.address, timeout=60) as client:
        client.wait_for_workers(2, timeout=120)

        def kill_all(model):
            if model.n_iter_ == 2:
                for worker in started:
                    worker.kill()

        model = Estimator(10, random_state=0)
        with pytest.raises(ClusterLostError, match="workers"):
            model.fit(blocks(X, SIZES), y, callback=kill_all)


def test_a_worker_that_joins_after_all_are_lost_finishes_the_work(digits, processes):
    X, y, *_ = digits
    expected = FLRML(10, max_iter=5, random_state=0).fit(X, y)
    first = processes.worker("--no-nanny")
    with Client(processes.address, timeout=60) as client:
        client.wait_for_workers(1, timeout=120)

        def replace(model):
            if model.n_iter_ == 2:
                first.kill()
                processes.worker("--no-nanny")

        found = FLRML(10, max_iter=5, random_state=0).fit(blocks(X, SIZES), y, callback=replace)
    assert np.abs(found.components_ - expected.components_).max() <= 1e-6 * np.abs(expected.components_).max()


def test_blocks_larger_than_a_worker_are_one_clear_error(processes):
    processes.worker("--nanny", "--memory-limit", "500MB")
    with Client(processes.address, timeout=60) as client:
        client.wait_for_workers(1, timeout=120)
        X = da.random.random((40_000, 4_000), chunks=(40_000, 4_000))
        with pytest.raises(ClusterLostError, match="memory"):
            FLRML(10, max_iter=2, random_state=0).fit(X, np.arange(40_000) % 3)


def test_memory_stays_within_the_limit_of_a_worker(tmp_path):
    """The rows take 960 MB as CSR matrices, more than two workers have beside Python and the map of 80 MB."""
    from benchmarks.distributed import largest_memory, write_store

    write_store(tmp_path / "data", rows=12_000, features=200_000, nonzeros=10_000)
    with workers(2, memory_limit="600MB") as client:
        X, y = open_split(tmp_path / "data" / "train")
        started = set(pids(client).values())
        MFLRML(100, n_batches=4, random_state=0).fit(X, y)
        assert largest_memory(client) < 600e6
        assert set(pids(client).values()) == started, "no worker was restarted"


def test_the_pipeline_uses_the_cluster_that_the_config_names(finished, fresh, processes):  # noqa: F811
    for _ in range(2):
        processes.worker("--no-nanny")
    config = copy.deepcopy(TINY) | {"dask_scheduler": processes.address}
    config["methods"]["flrml-ridge"] = {}
    ridge = "runs/shapes10-16/flrml-ridge/seed0/metrics.json"
    targets = [f"results/runs/{name}/seed0/metrics.json" for name in ("digits/flrml", "digits/mflrml-reference")]
    with Client(processes.address, timeout=60) as client:
        client.wait_for_workers(2, timeout=120)
        fresh.run(*targets, f"results/{ridge}", config=config)
        used = client.run(lambda dask_worker: dask_worker.state.executed_count)
    assert all(count > 0 for count in used.values())
    expected, found = finished.numbers(), fresh.numbers()
    for target in targets:
        name = target.removeprefix("results/")
        assert found[name]["outcome"] == "ok"
        assert abs(found[name]["accuracy"] - expected[name]["accuracy"]) < 0.05
    assert found[ridge]["outcome"] == "ok"
    (X, y), (X_test, y_test) = (load_rows(fresh.results / "data/shapes10-16" / part) for part in ("train", "test"))
    d, groups = config["common"]["n_components"], open_groups(fresh.results / "data/shapes10-16/train")
    local = RidgeFLRML(d, random_state=0).fit(X, y, groups=groups)
    accuracy = knn_accuracy(local.transform(X), y, local.transform(X_test), y_test)
    assert found[ridge]["accuracy"] == pytest.approx(accuracy, abs=0.03)
    flrml = targets[0].removeprefix("results/")
    np.testing.assert_allclose(found[flrml]["history"], expected[flrml]["history"], rtol=1e-3)
