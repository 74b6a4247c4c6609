"""Workarounds for behaviour of other libraries that they offer no setting for.

Each function names the library's version and what it works around. tests/test_compat.py fails for those that are no
longer needed.
"""

from functools import cache
from typing import Any


async def stop_work_stealing(dask_scheduler: Any) -> bool:
    """Stop the work stealing of a running Dask scheduler; return whether it was on.

    Distributed 2026.8 reads ``distributed.scheduler.work-stealing`` only when a scheduler starts, and moves tasks
    with ``allow_other_workers`` to idle workers, which copies their rows. Call it by ``Client.run_on_scheduler``.
    """
    stealing = dask_scheduler.extensions.get("stealing")
    running = stealing is not None and "stealing" in dask_scheduler.periodic_callbacks
    if running:
        await stealing.stop()
    return running


async def start_work_stealing(dask_scheduler: Any) -> None:
    """Undo :func:`stop_work_stealing`."""
    await dask_scheduler.extensions["stealing"].start()


def free_stuck_tasks(dask_scheduler: Any) -> None:
    """Let any worker run tasks whose preferred worker is gone.

    Distributed 2026.8 leaves a task with ``allow_other_workers`` unrunnable if no worker was alive when it was
    scheduled and workers with other addresses join later. Call it by ``Client.run_on_scheduler``.
    """
    stuck = [task for task in dask_scheduler.unrunnable if task.loose_restrictions]
    for task in stuck:
        task.worker_restrictions = set()
    dask_scheduler.transitions({task.key: "waiting" for task in stuck}, stimulus_id="flrml-free-stuck-tasks")


def lift_job_rate_limit(workflow: Any) -> None:
    """Let Snakemake start jobs of this machine as soon as there is room.

    With a limit, which no option takes away, Snakemake 9.27 starts a timer for every job that has ended, and each
    timer that goes off looks at all open jobs and starts the next one: half a core after a hundred jobs.
    """
    workflow.scheduler.job_rate_limiter = None


def leave_input_to_the_model(signature: Any) -> None:
    """Let a signature of MLflow describe the input of a model, and the model check it.

    MLflow 3.17 compares input with the signature of every model but those with type hints. It refuses float32 if
    the signature says float64, and whole numbers in a column of fractions, and it drops unknown columns. A model
    marked as one with type hints gets its input as it is; :func:`serve_every_form_of_request` is for its server.
    """
    signature._is_signature_from_type_hint = True


@cache
def serve_every_form_of_request() -> None:
    """Let a server of MLflow take every form of request for models marked as ones with type hints.

    MLflow 3.17 takes only ``{"inputs": ...}`` of the forms of JSON, and CSV only for signatures of columns.
    """
    from mlflow.pyfunc import scoring_server

    invocations = scoring_server.invocations

    def answer(data: Any, content_type: str, model: Any, input_schema: Any) -> Any:
        if not model.metadata._is_signature_from_type_hint():
            return invocations(data, content_type, model, input_schema)
        if content_type.startswith(scoring_server.CONTENT_TYPE_JSON):
            data = scoring_server._decode_json_input(data)
            forms = scoring_server.SUPPORTED_FORMATS & data.keys()
            if forms != {"inputs"}:
                data["inputs"] = scoring_server.infer_and_parse_data({form: data[form] for form in forms})
        return invocations(data, content_type, model, None)

    scoring_server.invocations = answer
