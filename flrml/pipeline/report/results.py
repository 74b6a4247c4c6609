"""Read result files for figures, tables and claims."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from flrml.files import read_json
from flrml.methods import METHODS

Record = dict[str, Any]


@dataclass
class Results:
    """Everything that a figure or table may show."""

    runs: list[Record] = field(default_factory=list)
    # Sweeps in the order of the swept parameter, without repeats that did not finish.
    margin: list[Record] = field(default_factory=list)
    batches: list[Record] = field(default_factory=list)
    directions: list[Record] = field(default_factory=list)
    growth: list[Record] = field(default_factory=list)
    iterations: list[Record] = field(default_factory=list)  # those that finished
    metas: dict[str, Record] = field(default_factory=dict)  # by data set
    svd: dict[tuple[str, str], float] = field(default_factory=dict)  # seconds by data set and kind of rows
    missing: dict[str, str] = field(default_factory=dict)  # reasons why data sets were left out
    positions: dict[str, int] = field(default_factory=dict)  # in the configuration, by data set

    @classmethod
    def read(
        cls,
        files: Mapping[str, str | Iterable[str]],
        missing: dict[str, str] | None = None,
        positions: dict[str, int] | None = None,
    ) -> "Results":
        """Read result files, given by kind as in :mod:`flrml.pipeline.report.result_files`."""
        paths = {kind: [found] if isinstance(found, str) else list(found) for kind, found in files.items()}

        def records(*kinds: str) -> list[Record]:
            return [read_json(path) for kind in kinds for path in paths.get(kind, ())]

        metas, svd = ([Path(path) for path in paths.get(kind, ())] for kind in ("metas", "svd"))
        return cls(
            runs=records("runs", "paper_runs", "studies", "all_runs", "new_classes", "descents"),
            margin=_points(records("margin"), "margin_ratio"),
            batches=_points(records("batches"), "batch_triplets"),
            directions=_points(records("directions"), "n_components"),
            growth=_under_own_names(records("growth")),
            iterations=[result for result in records("iterations") if result["outcome"] == "ok"],
            metas={path.parent.name: read_json(path) for path in metas},
            svd={(path.parent.name, path.stem): read_json(path)["seconds"] for path in svd},
            missing=missing or {},
            positions=positions or {},
        )

    @property
    def finished(self) -> list[Record]:
        """The runs that came to a solution."""
        return [run for run in self.runs if run["outcome"] == "ok"]

    @property
    def datasets(self) -> list[str]:
        """The data sets of the runs, in order."""
        return list(dict.fromkeys(run["dataset"] for run in self.runs))

    @property
    def paper_names(self) -> dict[str, str]:
        """Name in the paper of each data set that is the paper's own."""
        return {name: meta["paper"]["name"] for name, meta in self.metas.items() if meta["paper"]}

    @property
    def studies(self) -> "Results":
        """The runs under the names of the configuration, with the splits of a data set together."""
        return Results(
            [run | {"dataset": run["study"] or run["dataset"], "method": run["label"]} for run in self.runs]
        )

    def means(self, quantity: str) -> dict[str, dict[str, float]]:
        """Return the mean of a quantity over seeds, by data set and method."""
        return {
            dataset: {
                method: float(np.mean([run[quantity] for run in found])) for method, found in by_method.items()
            }
            for dataset, by_method in by(self.finished, "dataset", "method").items()
        }

    def svd_seconds(self, dataset: str, method: str) -> float:
        """Return the seconds of the SVD that a method starts from on a data set; 0 for a method without one."""
        if not METHODS[method].uses_spectrum:
            return 0.0
        return self.svd.get((dataset, METHODS[method].spectrum_kind), 0.0)


def load_function(path: str) -> Callable:
    """Return the function that an entry of the catalog names, such as ``"comparison.memory_table"``."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(f"flrml.pipeline.report.{module}"), name)


def title(method: str) -> str:
    """Return the name of a method in figures and tables; other names of the configuration stay as they are."""
    return METHODS[method].title if method in METHODS else method


def by(records: Iterable[Record], first: str, second: str) -> dict[str, dict[str, list[Record]]]:
    """Return records by their values of two keys, in the order in which they come."""
    found: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        found.setdefault(record[first], {}).setdefault(record[second], []).append(record)
    return found


def mean(runs: Iterable[Record], quantity: str) -> float | None:
    """Return the mean of a quantity over the runs that finished; None if there is none."""
    values = [run[quantity] for run in runs if run["outcome"] == "ok" and quantity in run]
    return float(np.mean(values)) if values else None


def growth_curve(growth: Record, quantity: str = "seconds") -> tuple[list[int], list[float]]:
    """Return the sizes of the data, and a quantity of the trainings that ended; seconds count per iteration."""
    points = [point for point in growth["points"] if point["outcome"] == "ok"]
    values = [point[quantity] / (max(point["n_iter"], 1) if quantity == "seconds" else 1) for point in points]
    return [point["size"] for point in points], values


def exponent(growth: Record, quantity: str = "seconds") -> float | None:
    """Return the fitted exponent of a quantity in the size of the data; see :func:`growth_curve`."""
    sizes, values = growth_curve(growth, quantity)
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0]) if len(sizes) > 1 else None


def _under_own_names(results: list[Record]) -> list[Record]:
    """Return results with the name that the configuration gives their method."""
    for result in results:
        result["method"] = result.get("label", result["method"])
    return results


def _points(results: list[Record], axis: str) -> list[Record]:
    """Return the results of a sweep in the order of its axis, without repeats that did not finish."""
    for result in _under_own_names(results):
        result["points"] = [point for point in result["points"] if point["outcome"] == "ok"]
    return sorted((result for result in results if result["points"]), key=lambda result: result[axis])
