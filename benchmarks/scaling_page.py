"""A model of the time of RidgeFLRML on many workers, and the page that compares it with measurements."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flrml.distributed.remote_rows import FAN_IN
from flrml.ridge.scaling import DUAL_COLUMNS_PER_ROW
from flrml.ridge.subspace import DISCRIMINANT_SHAPE

DIRECTIONS = 100
WIDTH = DIRECTIONS // DISCRIMINANT_SHAPE.blocks  # columns of a Krylov block
DATA = ("text", "voxels")
LARGER = (16, 64, 256)  # workers for which the model gives the time
NETWORK = 1.25e9  # bytes a second, 10 Gbit/s


def exchange_bytes(n_columns: int, n_workers: int, width: int = WIDTH) -> float:
    """Return the bytes that the workers send for the Krylov blocks, by a tree of sums and its way back."""
    return 2 * DISCRIMINANT_SHAPE.blocks * (n_workers - 1) * 4 * n_columns * width


def map_bytes(shape: list[int], n_workers: int) -> float:
    """Return the bytes of the map: of many columns per row a sum over the workers, else from one of them."""
    n, n_columns = shape
    return 4 * n_columns * DIRECTIONS * (n_workers if n_columns > DUAL_COLUMNS_PER_ROW * n else 1)


def exchange_seconds(n_columns: int, n_workers: int, bandwidth: float, width: int = WIDTH) -> float:
    """Return the time of that: at each level of the tree a worker receives, or sends, a few arrays in turn."""
    arrays, left = 0, n_workers
    while left > 1:
        arrays += min(FAN_IN, left) - 1
        left = math.ceil(left / FAN_IN)
    return 2 * DISCRIMINANT_SHAPE.blocks * arrays * 4 * n_columns * width / bandwidth


def tasks(measured: dict[str, dict[str, float]], n_workers: int) -> float:
    """Return the number of tasks, which grows with the workers as it does from two to four."""
    if str(n_workers) in measured:
        return measured[str(n_workers)]["tasks"]
    two, four = measured["2"]["tasks"], measured["4"]["tasks"]
    return two + (n_workers - 2) * (four - two) / 2


def predict(study: dict[str, Any], n_workers: int, cores: int, bandwidth: float, task: float) -> dict[str, float]:
    """Return the parts of the time of a fit with given parameters on a number of workers, by the model.

    Parameters
    ----------
    study : dict
        Measurements of 1, 2 and 4 workers.
    n_workers, cores : int
        Workers of one thread, and cores that they share.
    bandwidth : float
        Of the link of a worker, in bytes a second.
    task : float
        Seconds of the scheduler for a task.
    """
    measured = study["workers"]
    one = measured["1"]
    parts = {
        "compute": (one["compute"] - one["directions"]) / min(n_workers, cores),
        "directions": one["directions"],
        "client": max(one["given"] - one["compute"] - one["tasks"] * task, 0.0),
        "scheduler": tasks(measured, n_workers) * task,
        "exchange": exchange_seconds(study["shape"][1], n_workers, bandwidth),
    }
    return parts | {"seconds": sum(parts.values())}


def rows_of_half(study: dict[str, Any], n_workers: int, bandwidth: float, task: float) -> float:
    """Return the number of rows at which workers compute as long as they wait for one another."""
    parts = predict(study, n_workers, n_workers, bandwidth, task)
    waiting = parts["directions"] + parts["exchange"] + parts["scheduler"]
    return study["shape"][0] * waiting / parts["compute"]


def _shape(study: dict[str, Any]) -> str:
    n, n_columns = study["shape"]
    return f"{n:,} × {n_columns:,}"


def _measured_table(results: dict[str, Any]) -> Iterator[str]:
    """Yield the table of 1, 2 and 4 workers and the model."""
    cores, link = results.get("cores", 2), results["link"]
    yield "| data | workers | fit | parameters given | by the model | sent | by the model | peak of a worker |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for name in DATA:
        if name not in results:
            continue
        study = results[name]
        for count, run in study["workers"].items():
            model = predict(study, int(count), cores, link["bandwidth"], link["task"])
            exchanged = exchange_bytes(study["shape"][1], int(count)) + map_bytes(study["shape"], int(count))
            yield (
                f"| {name}, {_shape(study)} | {count} | {run['seconds']:.1f} s | {run['given']:.1f} s "
                f"| {model['seconds']:.1f} s | {run['sent'] / 1e6:,.0f} MB | {exchanged / 1e6:,.0f} MB "
                f"| {run['peak'] / 1e6:,.0f} MB |"
            )


def _larger_table(results: dict[str, Any]) -> Iterator[str]:
    """Yield the table of the model for more workers."""
    task = results["link"]["task"]
    columns = "compute | directions | exchange | scheduler"
    yield f"| data | workers | speed-up | {columns} | rows at which half is waiting |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for name in DATA:
        if name not in results:
            continue
        study = results[name]
        one = predict(study, 1, 1, NETWORK, task)["seconds"]
        for count in LARGER:
            parts = predict(study, count, count, NETWORK, task)
            yield (
                f"| {name}, {_shape(study)} | {count} | {one / parts['seconds']:.1f}× | {parts['compute']:.2f} s "
                f"| {parts['directions']:.2f} s | {parts['exchange']:.2f} s | {parts['scheduler']:.2f} s "
                f"| {rows_of_half(study, count, NETWORK, task):,.0f} |"
            )


def _sentences(results: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence for each further study that was measured."""
    for name in DATA:
        if name in results:
            one, two = results[name]["workers"]["1"], results[name]["workers"]["2"]
            yield (
                f"A second worker makes a fit to {name} {one['seconds'] / two['seconds']:.2f} times as fast, and "
                f"one with given parameters {one['given'] / two['given']:.2f} times."
            )
    if "apart" in results:
        one, two = results["apart"]["one"], results["apart"]["two"]
        yield (
            "Without Dask, two processes that each fit to half of the text and send nothing are "
            f"{one['seconds'] / two['seconds']:.2f} times as fast as one that fits to all of it, and with given "
            f"parameters {one['given'] / two['given']:.2f} times: the cap on these cores."
        )
    if "m10-100" in results:
        one, two = results["m10-100"]["workers"]["1"], results["m10-100"]["workers"]["2"]
        yield (
            f"m10-100, {_shape(results['m10-100'])} on disk, parameters chosen: {one['seconds']:.0f} s with one "
            f"worker, {two['seconds']:.0f} s with two, {one['seconds'] / two['seconds']:.2f} times as fast. A "
            f"worker takes at most {two['peak'] / 1e9:.1f} GB. Of validation rows, {100 * two['score']:.1f} % are "
            "classified correctly."
        )
    if "products" in results:
        run = results["products"]
        yield (
            "Its products without Dask, half of the rows in each of two processes, are "
            f"{run['one'] / run['two']:.2f} times as fast as in one: the cap there."
        )
    if "descent" in results:
        one, two = results["descent"]["workers"]["1"], results["descent"]["workers"]["2"]
        yield (
            f"FLRML on 60,000 × 784 in 8 blocks, r = 500: {one['seconds'] / two['seconds']:.2f} times as fast with "
            f"a second worker, its iterations {one['descent'] / two['descent']:.2f} times."
        )
    if "wide" in results:
        run = results["wide"]
        yield (
            f"Dense random rows of the shape {_shape(run)}, 80 GB made anew in every pass, at which a compressed "
            "SVD of rank 4,000 is reported to run out of memory (dask-ml issue 604): a fit with two workers of "
            f"2 GB takes {run['seconds'] / 60:.0f} minutes, and a worker at most {run['peak'] / 1e6:,.0f} MB."
        )
    if "large" in results:
        run = results["large"]
        yield (
            f"Documents of the shape {_shape(run)}, 100 words each, {run['bytes'] / 1e9:.1f} GB on disk: a fit "
            f"with two workers takes {run['seconds'] / 60:.0f} minutes and sends {run['sent'] / 1e9:.1f} GB; a "
            f"worker takes at most {run['peak'] / 1e9:.1f} GB. Of validation rows, {100 * run['score']:.1f} % are "
            f"classified correctly.{run.get('note', '')}"
        )
        if "note" not in run:
            yield _billion(run)


def _averaging_table(study: dict[str, Any]) -> Iterator[str]:
    """Yield the table of M-FLRML with averaged maps: the mean over seeds, in percent."""
    schemes = [name for name in next(iter(study.values()))["runs"][0] if "×" in name]
    yield "| data | mini-batches | one after the other | " + " | ".join(schemes) + " | maps sent | rows sent |"
    yield "|---|---:|---:|" + "---:|" * len(schemes) + "---:|---:|"
    for name, found in study.items():
        for batches in dict.fromkeys(run["batches"] for run in found["runs"]):
            runs = [run for run in found["runs"] if run["batches"] == batches]
            means = [sum(run[scheme] for run in runs) / len(runs) for scheme in ("local", *schemes)]
            cells = " | ".join(f"{mean:.1f}" for mean in means)
            maps, rows = found["sent"]["maps"] / 1e6, found["sent"]["rows"] / 1e6
            yield f"| {name} | {batches} | {cells} | {maps:.2f} MB | {rows:.2f} MB |"


def _billion(run: dict[str, Any], n: float = 1e9, n_workers: int = 100) -> str:
    """Return the estimate for a billion rows on a hundred workers, from the measured fit on two."""
    n_columns = run["shape"][1]
    compute = run["seconds"] * 2 / n_workers * n / run["shape"][0]
    exchange = exchange_seconds(n_columns, n_workers, NETWORK)
    memory = 4 * n * DIRECTIONS / n_workers
    return (
        f"An estimate, not a measurement, for a billion such rows on {n_workers} workers with links of 10 Gbit/s: "
        f"{compute / 60:.0f} minutes of computation, {exchange:.0f} seconds of communication, and "
        f"{memory / 1e9:.0f} GB of tall matrices at each worker."
    )


def page(results: dict[str, Any]) -> str:
    """Return docs/results/scaling.md."""
    lines = [
        "# RidgeFLRML on a cluster",
        "",
        f"Written by `python -m benchmarks.scaling` on {results.get('cores', 2)} cores. Workers have one thread; "
        f"d = {DIRECTIONS}.",
        "",
    ]
    if "link" in results and set(DATA) & results.keys():
        lines += [*_measured_table(results), "", "![Speed-up by the number of workers](scaling.svg)", ""]
        lines += [
            "The model: computation divided by the workers, the time of the worker that keeps the directions, the "
            f"client's share, the scheduler's time for a task, and the D × {WIDTH} sums of "
            f"{DISCRIMINANT_SHAPE.blocks} Krylov blocks, which a tree of {FAN_IN} branches adds up and passes on. "
            "For the measured rows the bandwidth is that between processes of this machine; for more workers it is "
            "10 Gbit/s:",
            "",
            *_larger_table(results),
            "",
        ]
    lines += [f"* {sentence}" for sentence in _sentences(results)]
    if "averaging" in results:
        lines += [
            "",
            "M-FLRML with workers × mini-batches that each learns on its own between averages of the maps, 5-NN "
            "accuracy in % after the same number of mini-batches, mean of two seeds. Sent for a mini-batch: "
            "maps with 5 mini-batches between averages, or the 240 rows themselves to the client, as is done:",
            "",
            *_averaging_table(results["averaging"]),
        ]
    if not results.keys() - {"cores"}:
        lines.append("Not measured yet.")
    return "\n".join(lines) + "\n"


def draw(results: dict[str, Any], target: Path) -> None:
    """Draw the speed-up by the number of workers."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "flrml"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 3.5), layout="constrained")
    counts = [2**power for power in range(9)]
    for name, color in zip(DATA, ("C0", "C1"), strict=True):
        if name in results:
            study, task = results[name], results["link"]["task"]
            one = predict(study, 1, 1, NETWORK, task)["seconds"]
            speeds = [one / predict(study, count, count, NETWORK, task)["seconds"] for count in counts]
            axes.plot(counts, speeds, color=color, label=f"{name}, {_shape(study)}")
            found = study["workers"]
            axes.plot([1, 2], [1, found["1"]["given"] / found["2"]["given"]], "o", color=color)
    axes.plot(counts, counts, ":", color="gray", label="as many times as workers")
    axes.set(xscale="log", yscale="log", xlabel="workers", ylabel="speed-up (dots: measured)")
    axes.legend()
    figure.savefig(target, metadata={"Date": None})
    pyplot.close(figure)
