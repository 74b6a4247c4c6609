"""Each workaround is needed: a test that fails here says that the library has changed and the workaround can go."""

import re
import subprocess
import sys
import time
from importlib import reload

import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster, get_worker
from mlflow.exceptions import MlflowException
from mlflow.models import Model, ModelSignature, validate_schema
from mlflow.pyfunc import scoring_server
from mlflow.types import ColSpec, Schema, TensorSpec

from flrml.compat import (
    free_stuck_tasks,
    leave_input_to_the_model,
    serve_every_form_of_request,
    start_work_stealing,
    stop_work_stealing,
)

QUIET = {"dashboard_address": ":0", "processes": False, "threads_per_worker": 1, "silence_logs": 50}


def address(_):
    time.sleep(0.1)
    return get_worker().address


@pytest.fixture
def cluster():
    with LocalCluster(n_workers=0, **QUIET) as cluster, Client(cluster) as client:
        yield cluster, client


def unrunnable(client):
    return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.unrunnable))


def test_dask_leaves_tasks_stuck_whose_worker_is_gone(cluster):
    cluster, client = cluster
    future = client.submit(abs, -1, workers=["tcp://127.0.0.1:1"], allow_other_workers=True)
    while not unrunnable(client):
        time.sleep(0.01)
    cluster.scale(1)
    client.wait_for_workers(1)
    assert client.submit(abs, -2).result() == 2
    assert unrunnable(client) == 1, "Dask schedules such tasks now: remove free_stuck_tasks"
    client.run_on_scheduler(free_stuck_tasks)
    assert future.result(timeout=30) == 1


def test_dask_moves_tasks_away_from_the_workers_they_prefer(cluster):
    cluster, client = cluster
    cluster.scale(2)
    client.wait_for_workers(2)
    first = min(client.nthreads())

    def used():
        futures = client.map(address, range(30), workers=[first], allow_other_workers=True, pure=False)
        return set(client.gather(futures))

    assert client.run_on_scheduler(stop_work_stealing)
    assert not client.run_on_scheduler(stop_work_stealing), "it is off already"
    assert used() == {first}
    client.run_on_scheduler(start_work_stealing)
    assert len(used()) == 2, "Dask keeps tasks at the workers they prefer now: remove stop_work_stealing"


SNAKEFILE = """
import threading
from flrml.compat import lift_job_rate_limit

started = []

class Counting(threading.Timer):
    def start(self):
        started.append(self)
        super().start()

threading.Timer = Counting

onstart:
    if config["lifted"]:
        lift_job_rate_limit(workflow)

onsuccess:
    print("timers:", len(started))

rule all:
    input: expand("{n}.txt", n=range(20))

rule touch:
    output: "{n}.txt"
    shell: "touch {output}"
"""


@pytest.mark.parametrize("lifted", [0, 1])
def test_snakemake_starts_a_timer_for_every_job_that_ends(tmp_path, lifted):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--config", f"lifted={lifted}"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    timers = int(re.search(r"timers: (\d+)", said.stdout + said.stderr)[1])
    assert timers == 0 if lifted else timers > 10


@pytest.mark.parametrize(
    ("rows", "spec"),
    [
        (np.ones((1, 2), np.float32), TensorSpec(np.dtype("float64"), (-1, 2))),
        (pd.DataFrame({"age": [34]}), ColSpec("double", "age")),
    ],
)
def test_mlflow_refuses_numbers_of_another_type(rows, spec):
    with pytest.raises(MlflowException, match="float"):
        validate_schema(rows, Schema([spec]))


class Served:
    """A model that answers with the columns of what it gets, with a signature that is left to it."""

    def __init__(self, spec):
        signature = ModelSignature(Schema([spec]))
        leave_input_to_the_model(signature)
        self.metadata = Model(signature=signature)

    def predict(self, frame):
        return frame.columns.tolist()


@pytest.mark.parametrize(
    ("request_body", "mime", "spec"),
    [
        ('{"dataframe_split": {"columns": ["age"], "data": [[34]]}}', "application/json", ColSpec("double", "age")),
        ("age\n34\n", "text/csv", TensorSpec(np.dtype("float64"), (-1, 1))),
    ],
)
def test_mlflow_serves_models_with_type_hints_few_forms_of_request(request_body, mime, spec):
    serve_every_form_of_request.cache_clear()
    reload(scoring_server)
    model = Served(spec)
    asked = (request_body, mime, model, model.metadata.get_input_schema())
    with pytest.raises(MlflowException, match=r"'inputs' key|TensorSpec"):
        scoring_server.invocations(*asked)
    serve_every_form_of_request()
    assert scoring_server.invocations(*asked).response == '{"predictions": ["age"]}'
