"""RidgeFLRML while workers die, join and run out of memory, and when the scheduler dies. Real processes."""

import os
import signal
import threading
from collections import Counter

import dask.array as da
import numpy as np
import pytest
from distributed import Client, wait
from distributed.comm.core import CommClosedError

from flrml import RidgeFLRML, knn_accuracy
from flrml.distributed import closed_form
from flrml.distributed.cluster import ClusterLostError
from flrml.distributed.remote_matrices import RemoteMatrices, RemoteMatrix, SampledBlocks
from flrml.distributed.remote_rows import RemoteRows
from tests.distributed.conftest import blocks, workers
from tests.distributed.test_ridge import close, documents

SIZES = [150] * 4
SETTINGS = {"n_components": 12, "random_state": 0}
GIVEN = SETTINGS | {"ridge": 0.3, "within": 0.9, "local": 0.1, "scale": 0.5, "rounds": 2}
# Where a worker dies: a method on the client, and the number of its call.
PHASES = {
    "loading": (RemoteRows, "map", 1),
    "summary": (RemoteRows, "check_values", 1),
    "sample": (closed_form.RidgeRows, "__getitem__", 1),
    "search": (SampledBlocks, "gram_times", 2),
    "first product": (RemoteMatrices, "product", 1),
    "third product": (RemoteMatrices, "product", 3),
    "reduction": (RemoteRows, "sums_by_worker", 4),
    "directions": (RemoteMatrices, "next_block", 4),
    "scatter": (RemoteMatrices, "last_column", 1),
    "class means": (closed_form.RemoteLabels, "class_means", 1),
    "rounds": (RemoteMatrix, "__getitem__", 1),
    "map": (RemoteMatrices, "lift", 1),
}


@pytest.fixture(scope="module")
def words():
    return documents(0)


def at_call(monkeypatch, place, action):
    """Do something 20 ms after a method is called for the given time, when its tasks have been sent."""
    owner, name, number = place
    original, calls = getattr(owner, name), []

    def watched(*arguments, **named):
        calls.append(name)
        if len(calls) == number:
            timer = threading.Timer(0.02, action)
            timer.start()
        return original(*arguments, **named)

    monkeypatch.setattr(owner, name, watched)
    return calls


def kill_one(client):
    """Kill a worker's process with signal 9."""
    os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)


def check_a_kill(monkeypatch, words, phase, client):
    X, y = words
    given = {} if phase in ("sample", "search") else GIVEN
    if phase == "search":
        monkeypatch.setattr(closed_form, "WORTH_WORKERS", 0)
    expected = RidgeFLRML(**SETTINGS | given).fit(X, y)
    victim = min(client.run(os.getpid).values())
    calls = at_call(monkeypatch, PHASES[phase], lambda: os.kill(victim, signal.SIGKILL))
    found = RidgeFLRML(**SETTINGS | given).fit(blocks(X, SIZES), da.from_array(y, chunks=200))
    assert len(calls) >= PHASES[phase][2], "the fit came to this phase"
    close(found, expected)
    assert victim not in alive(client)


def alive(client):
    """The numbers of the workers' processes, asked again if one dies meanwhile."""
    try:
        return set(client.run(os.getpid).values())
    except CommClosedError:
        return alive(client)


def test_a_worker_that_dies_during_a_product_changes_nothing(monkeypatch, words):
    with workers(2) as client:
        check_a_kill(monkeypatch, words, "third product", client)


@pytest.mark.slow
@pytest.mark.parametrize("phase", [phase for phase in PHASES if phase != "third product"])
def test_a_worker_that_dies_in_any_phase_changes_nothing(monkeypatch, words, phase):
    with workers(2) as client:
        check_a_kill(monkeypatch, words, phase, client)


@pytest.mark.slow
def test_a_worker_that_dies_during_the_evaluation_changes_nothing(words):
    X, y = words
    model = RidgeFLRML(**GIVEN).fit(X, y)
    expected = knn_accuracy(model.transform(X), y, model.transform(X[:100]), y[:100])
    with workers(2) as client:
        rows = client.persist(model.transform(blocks(X, SIZES)))
        wait(rows)
        timer = threading.Timer(0.05, kill_one, [client])
        timer.start()
        assert knn_accuracy(rows, y, model.transform(blocks(X[:100], [50, 50])), y[:100]) == expected
        timer.join()


@pytest.mark.slow
def test_kills_at_random_moments_change_nothing(words):
    X, y = words
    expected = RidgeFLRML(**GIVEN).fit(X, y)
    with workers(2) as client:
        RidgeFLRML(**GIVEN).fit(blocks(X, SIZES), y)  # imports
        for delay in np.linspace(0.05, 1.5, 6):
            client.wait_for_workers(2, timeout=120)
            timer = threading.Timer(delay, kill_one, [client])
            timer.start()
            close(RidgeFLRML(**GIVEN).fit(blocks(X, SIZES), y), expected)
            timer.join()


@pytest.mark.slow
def test_a_worker_that_joins_takes_its_share(monkeypatch, words, processes):
    X, y = words
    expected = RidgeFLRML(**GIVEN).fit(X, y)
    processes.worker("--no-nanny")
    with Client(processes.address, timeout=60) as client:
        client.wait_for_workers(1, timeout=120)
        original, shares = RemoteMatrices.product, []

        def join(self, block):
            if len(client.nthreads()) == 1:
                processes.worker("--no-nanny")
                client.wait_for_workers(2, timeout=120)
            product = original(self, block)
            shares.append(sorted(Counter(self.remote.places).values()))
            return product

        monkeypatch.setattr(RemoteMatrices, "product", join)
        found = RidgeFLRML(**GIVEN).fit(blocks(X, SIZES), y)
        used = client.run(lambda dask_worker: dask_worker.state.executed_count)
    close(found, expected)
    assert shares[0] == [2], "the first block was under way"
    assert len(shares) > 2
    assert set(map(tuple, shares[1:])) == {(1, 1)}, "each worker has half of the rows from the next block on"
    assert min(used.values()) >= len(shares) - 1


@pytest.mark.slow
def test_the_loss_of_all_workers_is_one_clear_error(monkeypatch, words, processes):
    X, y = words
    started = [processes.worker("--no-nanny") for _ in range(2)]
    with Client(processes.address, timeout=60) as client:
        client.wait_for_workers(2, timeout=120)

        def kill_all():
            for worker in started:
                worker.kill()

        at_call(monkeypatch, PHASES["third product"], kill_all)
        with pytest.raises(ClusterLostError, match="workers"):
            RidgeFLRML(**GIVEN).fit(blocks(X, SIZES), y)


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["summary", "third product", "reduction", "rounds"])
def test_the_loss_of_the_scheduler_is_one_clear_error(monkeypatch, words, processes, phase):
    X, y = words
    for _ in range(2):
        processes.worker("--no-nanny")
    with Client(processes.address, timeout=60) as client:
        client.wait_for_workers(2, timeout=120)

        def kill_scheduler():
            processes.started[0].kill()

        at_call(monkeypatch, PHASES[phase], kill_scheduler)
        with pytest.raises(ClusterLostError, match="scheduler"):
            RidgeFLRML(**GIVEN).fit(blocks(X, SIZES), y)


@pytest.mark.slow
def test_a_worker_over_its_memory_limit_is_one_clear_error(processes):
    processes.worker("--nanny", "--memory-limit", "400MB")
    with Client(processes.address, timeout=60) as client:
        client.wait_for_workers(1, timeout=120)
        X = da.random.random((40_000, 4_000), chunks=(40_000, 4_000))
        with pytest.raises(ClusterLostError, match="memory"):
            RidgeFLRML(**GIVEN).fit(X, np.arange(40_000) % 3)


@pytest.mark.slow
def test_memory_stays_within_the_limit_of_a_worker(tmp_path):
    """The rows take 960 MB as CSR matrices, more than the workers have beside Python."""
    from benchmarks.distributed import largest_memory, write_store
    from flrml.distributed import open_split

    write_store(tmp_path / "data", rows=12_000, features=200_000, nonzeros=10_000)
    with workers(2, memory_limit="700MB") as client:
        X, y = open_split(tmp_path / "data" / "train")
        started = set(client.run(os.getpid).values())
        RidgeFLRML(**GIVEN | {"n_components": 100}).fit(X, y)
        assert largest_memory(client) < 700e6
        assert set(client.run(os.getpid).values()) == started, "no worker was restarted"
