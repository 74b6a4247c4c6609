# The checked configuration, and functions that name files; shared by all rules.
import os
import re
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from flrml.datasets import REGISTRY, raw_files
from flrml.methods import METHODS
from flrml.pipeline.config import ConfigError, resolve
from flrml.pipeline.integrity import discard_damaged
from flrml.pipeline.logs import summary_lines
from flrml.pipeline.sources import source_files
from flrml.pipeline.sweeps import SWEEPS

try:
    config = resolve(config, workflow.source_path("../schemas/config.schema.yaml"))
except ConfigError as error:
    raise WorkflowError(f"config: {error}")

RESULTS = config["results"]
RAW_DIR = os.environ.get("FLRML_RAW_DIR") or config["raw_dir"]
DATASETS = config["datasets"]
FIGURE_SETTINGS = config["figures"]
# Jobs in an environment of their own find flrml in the working copy too.
if Path(workflow.basedir, "flrml").is_dir():
    os.environ.update(
        PYTHONPATH=os.pathsep.join(filter(None, [str(workflow.basedir), os.environ.get("PYTHONPATH")]))
    )
# Cores of this machine that a run may use, or on a cluster the most that one submission may.
ALL_CORES = workflow.cores or 1


# Files that a full disk or a power cut left half-written are made again. Jobs of a run do not look.
if workflow.is_main_process:
    for line in discard_damaged(RESULTS):
        logger.warning(line)


wildcard_constraints:
    dataset="[^/]+",
    method="[^/]+",
    seed=r"\d+",
    kind="plain|centered",
    sweep="|".join(SWEEPS),


def sources(*modules):
    """Return the source files that a result of these modules depends on: an edit of one makes it again."""
    return source_files(*(f"flrml.{module}" for module in modules), deferred=config["dask_scheduler"] is not None)


def method_sources(method, *modules):
    """Return the source files that a training of a method depends on."""
    return sources(METHODS[method].estimator.__module__.removeprefix("flrml."), *modules)


def prepared_meta(wildcards):
    return f"{RESULTS}/data/{wildcards.dataset}/meta.json"


def settings(dataset):
    return DATASETS[dataset] or {}


def datasets_pattern(svd):
    """Return the wildcard constraint for data sets with an SVD, or for those without."""
    return "|".join(re.escape(name) for name in DATASETS if settings(name)["svd"] == svd) or "(?!)"


def methods_of(dataset):
    """Return the methods that run on a data set."""
    svd = settings(dataset)["svd"]
    return [name for name in config["methods"] if svd or not METHODS[name].uses_spectrum]


def spectrum_file(dataset, method):
    """Return the spectrum that a method takes, or nothing."""
    if not METHODS[method].uses_spectrum:
        return []
    return f"{RESULTS}/svd/{dataset}/{METHODS[method].spectrum_kind}.npz"


def max_rank(dataset):
    return settings(dataset).get("max_rank", config["max_rank"])


def run_settings(dataset, method, **more):
    """Return what identifies a run; its result files carry it."""
    common = {name: value for name, value in config["common"].items() if name in METHODS[method].accepts}
    parameters = {**METHODS[method].parameters, **common, **(config["methods"].get(method) or {})}
    return {"dataset": dataset, "method": method, "parameters": parameters, **more}


def run_files(dataset, file="metrics.json", seed=None):
    """Return a file of every run on a data set, with one seed or with all."""
    return [
        f"{RESULTS}/runs/{dataset}/{method}/seed{each}/{file}"
        for method in methods_of(dataset)
        for each in (config["seeds"] if seed is None else [seed])
    ]


def all_metrics():
    return [path for dataset in DATASETS for path in run_files(dataset)]


def sweep_files(sweep, dataset=None):
    """Return the result files of a sweep, of one data set or of all."""
    chosen = FIGURE_SETTINGS.get(sweep)
    if not chosen:
        return []
    datasets = [name for name in chosen["datasets"] if dataset in (None, name)]
    values = chosen[SWEEPS[sweep].values]
    return [f"{RESULTS}/sweeps/{sweep}/{name}/{value}.json" for name in datasets for value in values]


def swept_method(wildcards):
    return FIGURE_SETTINGS[wildcards.sweep]["method"]


def growth_files():
    return [
        f"{RESULTS}/growth/{axis}/{method}.json"
        for axis, chosen in (FIGURE_SETTINGS.get("growth") or {}).items()
        for method in chosen["methods"]
    ]


def convergence_runs():
    """Return the runs that the convergence figure shows."""
    chosen = (FIGURE_SETTINGS.get("convergence") or {}).get("datasets", [])
    return [
        f"{RESULTS}/runs/{dataset}/{method}/seed{config['seeds'][0]}/metrics.json"
        for dataset in chosen
        for method in ("flrml", "flrml-reference")
        if method in methods_of(dataset)
    ]


def figure_outputs(name, category):
    """Return the output files of a figure; the PNG goes into the report."""
    stem = f"{RESULTS}/figures/{name}"
    caption = f"../report/figure_{name}.rst"
    return [f"{stem}.pdf", report(f"{stem}.png", caption=caption, category=category), f"{stem}.csv"]


def table_outputs(name):
    """Return the output files of a table; the CSV goes into the report."""
    stem = f"{RESULTS}/tables/{name}"
    caption = f"../report/table_{name}.rst"
    return [f"{stem}.md", report(f"{stem}.csv", caption=caption, category="Tables"), f"{stem}.tex"]
