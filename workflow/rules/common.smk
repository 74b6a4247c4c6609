# The checked configuration, and functions that name files; shared by all rules.
import os
import re
from functools import partial
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from flrml.datasets import REGISTRY, raw_files
from flrml.pipeline.config.at_hand import leave_out_missing
from flrml.pipeline.config.resolve import ConfigError, resolve
from flrml.pipeline.repair import discard_damaged
from flrml.pipeline.logs import summary_lines
from flrml.pipeline.report import result_files
from flrml.pipeline.report.claims import CLAIMS
from flrml.pipeline.sources import source_files
from flrml.pipeline.stages.sweep import SWEEPS

try:
    config = resolve(config, workflow.source_path("../schemas/config.schema.yaml"))
    RAW_DIR = os.environ.get("FLRML_RAW_DIR") or config["raw_dir"]
    config, MISSING, left_out = leave_out_missing(config, RAW_DIR)
except ConfigError as error:
    raise WorkflowError(f"config: {error}")

if workflow.is_main_process:
    for line in left_out:
        logger.warning(line)

ROOT = Path(workflow.current_basedir.get_path_or_uri(secret_free=True)).parents[1]
RESULTS = config["results"]
DATASETS = config["datasets"]
FIGURE_SETTINGS = config["figures"]
# Functions of this configuration: a method by its name, the methods of a data set, files of runs and sweeps.
method_of = partial(result_files.method_of, config)
methods_of = partial(result_files.methods_of, config)
run_files = partial(result_files.run_files, config)
sweep_files = partial(result_files.sweep_files, config)
VOXELS = [name for name, dataset in REGISTRY.items() if dataset.kind == "voxel"]
# Jobs in an environment of their own find flrml in the working copy too.
if (ROOT / "flrml").is_dir():
    os.environ.update(PYTHONPATH=os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))
# Cores of this machine that a run may use, or on a cluster the most that one submission may.
# Drawing the graph needs none.
try:
    ALL_CORES = workflow.cores or 1
except WorkflowError:
    ALL_CORES = 1


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
    return sources(method_of(method).estimator.__module__.removeprefix("flrml."), *modules)


def prepared_meta(wildcards):
    return f"{RESULTS}/data/{wildcards.dataset}/meta.json"


def settings(dataset):
    return DATASETS[dataset] or {}


def spectrum_file(dataset, method):
    """Return the spectrum that a method takes, or nothing."""
    if not method_of(method).uses_spectrum:
        return []
    return f"{RESULTS}/svd/{dataset}/{method_of(method).spectrum_kind}.npz"


def max_rank(dataset):
    return settings(dataset).get("max_rank", config["max_rank"])


def run_settings(dataset, method, **more):
    """Return what identifies a run; its result files carry it."""
    base = method_of(method)
    common = {name: value for name, value in config["common"].items() if name in base.accepts}
    own = config["methods"].get(method, {"parameters": {}})["parameters"]
    names = {"dataset": dataset, "method": base.name, "label": method, "study": settings(dataset).get("study")}
    return {**names, "parameters": {**base.parameters, **common, **own}, **more}


def swept_run(wildcards):
    """Return what identifies a point of a sweep; mini-batches may be more than in the tables."""
    run = run_settings(wildcards.dataset, wildcards.method, n_neighbors=config["n_neighbors"])
    own = {key: value for key, value in FIGURE_SETTINGS[wildcards.sweep].items() if key == "n_batches"}
    return run | {"parameters": run["parameters"] | own}


def report_sources(entry):
    """Return the source files of a figure or table, and of the claims if it shows any."""
    claims = ["pipeline.report.claims"] if any(claim.figure == entry.name for claim in CLAIMS) else []
    return sources(entry.module, "pipeline.report.captions", *claims)


def shown_file(path, entry):
    """Return an output file that the report shows, with the caption that is written beside it."""
    caption = os.path.abspath(Path(path).with_suffix(".rst"))
    return report(path, caption=caption, category=entry.category)
