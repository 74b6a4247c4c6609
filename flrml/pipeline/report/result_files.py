"""Name the result files that figures and tables read, from the resolved configuration."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from flrml.datasets.registry import REGISTRY
from flrml.datasets.splitting import has_new_classes
from flrml.methods import METHODS, Method
from flrml.pipeline.config.expansion import methods_on
from flrml.pipeline.config.resolve import used_methods
from flrml.pipeline.naming import METRICS, POINT, SWEEPS
from flrml.pipeline.report.catalog import FIGURES, TABLES, Entry

Config = dict[str, Any]
Pairs = list[tuple[str, str]]  # of a data set and a method
DESCENTS = ("flrml", "flrml-reference")
CLAIMED = ("FLRML", "M-FLRML")  # in the paper


def method_of(config: Config, name: str) -> Method:
    """Return the registered method that a name of the configuration stands for."""
    return METHODS[config["methods"][name]["method"] if name in config["methods"] else name]


def methods_of(config: Config, dataset: str) -> list[str]:
    """Return the methods that run on a data set."""
    settings = config["datasets"][dataset]
    chosen = methods_on(settings, config["methods"])
    return [name for name in chosen if settings["svd"] or not method_of(config, name).uses_spectrum]


def run_files(config: Config, dataset: str, file: str = METRICS) -> list[str]:
    """Return a file of every run on a data set."""
    return _paths(config, [(dataset, method) for method in methods_of(config, dataset)], file)


def sweep_files(config: Config, sweep: str) -> list[str]:
    """Return the result files of a sweep."""
    chosen = config["figures"].get(sweep, {"datasets": []})
    return [
        f"{config['results']}/sweeps/{sweep}/{name}/{method}/{value}/{POINT}"
        for name in chosen["datasets"]
        for method in chosen["methods"]
        for value in chosen[SWEEPS[sweep].values]
    ]


def files_of(config: Config, kind: str) -> list[str]:
    """Return the result files of a kind, a key of KINDS."""
    return KINDS[kind](config)


def inputs_of(config: Config, entry: Entry) -> dict[str, list[str]]:
    """Return the files that a figure or table reads, by kind."""
    return {kind: files_of(config, kind) for kind in entry.inputs}


def entries_of(config: Config) -> list[Entry]:
    """Return the figures that a configuration draws, and the tables that it writes."""
    entries = [*(FIGURES[name] for name in config["figures"]), *TABLES.values()]
    return [entry for entry in entries if all(files_of(config, kind) for kind in entry.required)]


def shown_methods(config: Config, entry: Entry) -> dict[str, tuple]:
    """Return what the registry says of the methods of a configuration; nothing if an entry shows no method."""
    if set(entry.inputs) <= {"metas"}:
        return {}
    followed = {*DESCENTS, "flrml-ridge"} if "iterations" in config["figures"] else set()
    used = used_methods(config) | followed
    return {
        name: (method.title, method.table, method.paper, method.control)
        for name, method in METHODS.items()
        if name in used
    }


def dataset_positions(config: Config, figure: str) -> dict[str, int]:
    """Return the positions of a figure's data sets in the configuration: each has one colour in all figures."""
    order = list(config["datasets"])
    return {name: order.index(name) for name in config["figures"].get(figure, {}).get("datasets", [])}


def _own_runs(config: Config) -> Pairs:
    """Return data sets with their own test parts, each with its methods under their own names."""
    return [
        (name, method)
        for name, dataset in config["datasets"].items()
        if "study" not in dataset
        for method in methods_of(config, name)
        if method == method_of(config, method).name
    ]


def _paths(config: Config, pairs: Pairs, file: str = METRICS, seeds: Iterable | None = None) -> list[str]:
    """Return a file of the runs of some methods on some data sets, with all seeds if not given."""
    return [
        f"{config['results']}/runs/{dataset}/{method}/seed{seed}/{file}"
        for dataset, method in pairs
        for seed in seeds or config["seeds"]
    ]


def _runs(config: Config, chosen: Callable[[dict], bool] = lambda dataset: True) -> list[str]:
    """Return the metrics of methods under their own names, on chosen data sets with their own test parts."""
    return _paths(config, [pair for pair in _own_runs(config) if chosen(config["datasets"][pair[0]])])


def _all_runs(config: Config, chosen: Callable[[dict], bool] = lambda dataset: True) -> list[str]:
    """Return the metrics of all runs on chosen data sets, under any name and on splits too."""
    datasets = config["datasets"].items()
    return [path for name, dataset in datasets if chosen(dataset) for path in run_files(config, name)]


def _studies(config: Config) -> list[str]:
    """Return the metrics of runs on splits, and of methods under other names."""
    return sorted(set(_all_runs(config)) - set(_runs(config)))


def _claimed(config: Config) -> list[str]:
    """Return the metrics of the methods that the paper claims something of, on data sets of the registry."""
    return _paths(
        config,
        [
            (name, method)
            for name, method in _own_runs(config)
            if config["datasets"][name]["source"] in REGISTRY and METHODS[method].paper in CLAIMED
        ],
    )


def _is_printed(dataset: dict) -> bool:
    """Return whether a data set is one of the paper's."""
    return dataset["source"] in REGISTRY and REGISTRY[dataset["source"]].paper is not None


def _has_new_classes(dataset: dict) -> bool:
    return has_new_classes(dataset["options"].get("split"))


def _descents(config: Config) -> list[str]:
    """Return the runs of FLRML and its reference form that the convergence figure shows, with the first seed."""
    chosen = config["figures"].get("convergence", {}).get("datasets", [])
    pairs = [(name, method) for name in chosen for method in DESCENTS if method in methods_of(config, name)]
    return _paths(config, pairs, seeds=config["seeds"][:1])


def _growth(config: Config) -> list[str]:
    axes = config["figures"].get("growth", {})
    return [f"{config['results']}/growth/{axis}/{name}.json" for axis in axes for name in axes[axis]["methods"]]


def _iterations(config: Config) -> list[str]:
    chosen = config["figures"].get("iterations", {}).get("datasets", [])
    return [f"{config['results']}/iterations/{dataset}.json" for dataset in chosen]


def _svd(config: Config) -> list[str]:
    """Return the records of those SVDs that a run starts from."""
    methods = ((dataset, method_of(config, name)) for dataset, name in _own_runs(config))
    taken = {(dataset, method.spectrum_kind): None for dataset, method in methods if method.uses_spectrum}
    return [f"{config['results']}/svd/{dataset}/{kind}.json" for dataset, kind in taken]


def _metas(config: Config) -> list[str]:
    return [f"{config['results']}/data/{dataset}/meta.json" for dataset in config["datasets"]]


KINDS: dict[str, Callable[[Config], list[str]]] = {
    "runs": _runs,
    "claimed": _claimed,
    "paper_runs": partial(_runs, chosen=_is_printed),
    "studies": _studies,
    "all_runs": _all_runs,
    "new_classes": partial(_all_runs, chosen=_has_new_classes),
    "descents": _descents,
    "margin": partial(sweep_files, sweep="margin"),
    "batches": partial(sweep_files, sweep="batches"),
    "directions": partial(sweep_files, sweep="directions"),
    "growth": _growth,
    "iterations": _iterations,
    "svd": _svd,
    "metas": _metas,
}
