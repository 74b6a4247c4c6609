"""Log and find runs, and start processes at once."""

import multiprocessing

from flrml.pipeline.tracking.records import log_run


def log_trained(tracker, folder):
    record = log_run(tracker, folder / "metrics.json", folder / "model.npz", "test", n_neighbors=3)
    (found,) = tracker.runs(record.key)
    return found


def by_name(tracker):
    return {found.data.tags["mlflow.runName"]: found for found in tracker.runs()}


def in_processes(count, work):
    """Run work(number) in forked processes that start at once; return their exit codes."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(count)

    def start(number):
        barrier.wait()
        work(number)

    started = [context.Process(target=start, args=(number,)) for number in range(count)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    return [process.exitcode for process in started]
