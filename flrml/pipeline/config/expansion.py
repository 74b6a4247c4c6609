"""Expand studies in a configuration: splits of training parts, methods under other names, grids of parameters."""

from itertools import product
from typing import Any

from flrml.datasets.splitting import has_new_classes


def expand(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration in which every data set is one split and every method one set of parameters.

    A data set with ``splits: k`` becomes k data sets, each of which holds out another fifth of the training part,
    or with ``split: classes`` another half of the classes. A method with ``grid`` becomes a method per combination
    of values. The ``source`` or ``method`` of an entry names what it stands for. Defaults must be filled in.
    """
    datasets: dict[str, Any] = {}
    for name, dataset in config["datasets"].items():
        source = dataset.get("source", name)
        plain = {key: value for key, value in dataset.items() if key != "splits"} | {"source": source}
        if "splits" not in dataset:
            datasets[name] = plain
        kind = "classes-" if has_new_classes(plain["options"].get("split")) else ""
        for number in range(dataset.get("splits", 0)):
            datasets[f"{name}-split{number}"] = plain | {
                "options": plain["options"] | {"split": f"{kind}{number}" if kind else number},
                "study": name,
            }
    methods: dict[str, Any] = {}
    for name, given in config["methods"].items():
        parameters = {key: value for key, value in (given or {}).items() if key not in ("method", "grid", "class")}
        method, grid = (given or {}).get("method", name), (given or {}).get("grid", {})
        for values in product(*grid.values()):
            point = dict(zip(grid, values, strict=True))
            label = ",".join([name, *(f"{key}={value}" for key, value in point.items())])
            methods[label] = {"method": method, "parameters": parameters | point}
            if "class" in (given or {}):
                methods[label]["class"] = given["class"]
    return config | {"datasets": datasets, "methods": methods}


def methods_on(dataset: dict[str, Any], methods: dict[str, Any]) -> list[str]:
    """Return the methods that a data set asks for, both of the expanded configuration."""
    if "methods" not in dataset:
        return list(methods)
    return [label for label in methods if label.split(",")[0] in dataset["methods"]]
