# What all rules share: the checked configuration, and the names of files.
import os
import re
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

import flrml
from flrml.methods import METHODS
from flrml.datasets import REGISTRY, raw_files
from flrml.pipeline.config import ConfigError, resolve

# Snakemake announces every round of its scheduler; the lines of the jobs say more.
logger.addFilter(lambda record: not str(record.msg).startswith(("Select jobs to execute", "Execute ")))

try:
    config = resolve(config, workflow.source_path("../schemas/config.schema.yaml"))
except ConfigError as error:
    raise WorkflowError(f"config: {error}")

RESULTS = config["results"]
RAW_DIR = os.environ.get("FLRML_RAW_DIR") or config["raw_dir"]
DATASETS = config["datasets"]
FIGURE_SETTINGS = config["figures"]
SOURCE = Path(flrml.__file__).parent
# Jobs in an environment of their own find flrml in the working copy too.
if SOURCE.parent == Path(workflow.basedir):
    os.environ.update(PYTHONPATH=os.pathsep.join(filter(None, [str(SOURCE.parent), os.environ.get("PYTHONPATH")])))
# Cores of this machine that a run may use, or on a cluster the most that one submission may.
ALL_CORES = workflow.cores or 1


wildcard_constraints:
    dataset="[^/]+",
    method="[^/]+",
    seed=r"\d+",
    kind="plain|centred",


def source(*names):
    """Files of the package that results depend on: an edit of one makes them anew."""
    return [str(SOURCE / f"{name}.py") for name in names]


def cluster_source():
    """Files that results depend on where a Dask cluster makes them."""
    return [str(path) for path in sorted((SOURCE / "distributed").glob("*.py"))] if config["dask_scheduler"] else []


def data(wildcards):
    return f"{RESULTS}/data/{wildcards.dataset}/meta.json"


def settings(dataset):
    return DATASETS[dataset] or {}


def on_datasets(svd):
    """The wildcard `dataset` for data sets with an SVD, or for those without."""
    return "|".join(re.escape(name) for name in DATASETS if settings(name)["svd"] == svd) or "(?!)"


def methods_of(dataset):
    """Methods that run on a data set."""
    svd = settings(dataset)["svd"]
    return [name for name in config["methods"] if svd or not METHODS[name].uses_spectrum]


def spectrum_of(dataset, method):
    kind = "centred" if METHODS[method].centred else "plain"
    return f"{RESULTS}/svd/{dataset}/{kind}.npz"


def max_rank(dataset):
    return settings(dataset).get("max_rank", config["max_rank"])


def run_of(dataset, method, **more):
    """What identifies a run, as a parameter that its files carry."""
    common = {name: value for name, value in config["common"].items() if name in METHODS[method].accepts}
    parameters = {**METHODS[method].parameters, **common, **(config["methods"].get(method) or {})}
    return {"dataset": dataset, "method": method, "parameters": parameters, **more}


def spectrum_input(wildcards):
    uses = METHODS[wildcards.method].uses_spectrum
    return spectrum_of(wildcards.dataset, wildcards.method) if uses else []


def method_source(wildcards):
    place = METHODS[wildcards.method].estimator.__module__.removeprefix("flrml.").replace(".", "/")
    shared = (
        ["baselines/common"]
        if place.startswith("baselines/")
        else ["metric", "loss", "stiefel", "ridge", "search", "supervision"]
    )
    return source(place, *shared, "rows", "pipeline/training", "pipeline/limits") + cluster_source()


def results_of(dataset, file="metrics.json", seed=None):
    """A file of every run on a data set, with one seed or with all."""
    return [
        f"{RESULTS}/runs/{dataset}/{method}/seed{each}/{file}"
        for method in methods_of(dataset)
        for each in (config["seeds"] if seed is None else [seed])
    ]


def all_results():
    return [path for dataset in DATASETS for path in results_of(dataset)]


def sweep_points(sweep, dataset=None):
    """Result files of a sweep, of one data set or of all."""
    chosen = FIGURE_SETTINGS.get(sweep)
    if not chosen:
        return []
    values = chosen["ratios" if sweep == "margin" else "sizes"]
    datasets = [name for name in chosen["datasets"] if dataset in (None, name)]
    return [f"{RESULTS}/sweeps/{sweep}/{name}/{value}.json" for name in datasets for value in values]


def growth_points():
    return [
        f"{RESULTS}/growth/{axis}/{method}.json"
        for axis, chosen in (FIGURE_SETTINGS.get("growth") or {}).items()
        for method in chosen["methods"]
    ]


def converging():
    """Runs that the convergence figure shows."""
    chosen = (FIGURE_SETTINGS.get("convergence") or {}).get("datasets", [])
    return [
        f"{RESULTS}/runs/{dataset}/{method}/seed{config['seeds'][0]}/metrics.json"
        for dataset in chosen
        for method in ("flrml", "flrml-reference")
        if method in methods_of(dataset)
    ]


def drawn(name, category):
    """Output files of a figure; the PNG goes into the report."""
    stem = f"{RESULTS}/figures/{name}"
    caption = f"../report/figure_{name}.rst"
    return [f"{stem}.pdf", report(f"{stem}.png", caption=caption, category=category), f"{stem}.csv"]


def written(name):
    """Output files of a table; the CSV goes into the report."""
    stem = f"{RESULTS}/tables/{name}"
    caption = f"../report/table_{name}.rst"
    return [f"{stem}.md", report(f"{stem}.csv", caption=caption, category="Tables"), f"{stem}.tex"]
