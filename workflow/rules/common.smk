# The checked configuration, and functions that name files; shared by all rules.
import os
import sys
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from flrml.datasets.registry import find_dataset, raw_files
from flrml.pipeline.config.at_hand import Addresses, leave_out_missing
from flrml.pipeline.config.resolve import ConfigError, resolve
from flrml.pipeline.repair import set_aside_damaged
from flrml.pipeline.report import result_files
from flrml.pipeline.report.claims import CLAIMS
from flrml.pipeline.sources import source_files
from flrml.pipeline.naming import METRICS, MODEL, SWEEPS, TRAINING

sys.path.append(os.getcwd())  # for methods in the working folder; jobs have it in PYTHONPATH
try:
    config = resolve(config, workflow.source_path("../schemas/config.schema.yaml"))
    RAW_DIR = os.environ.get("FLRML_RAW_DIR") or config["raw_dir"]
    # Asked once, at the start of a run: jobs and dry runs read the answers, so that the graph is the same for all.
    starts = workflow.is_main_process and not workflow.output_settings.dryrun
    config, MISSING, left_out = leave_out_missing(config, RAW_DIR, Addresses(config["results"], ask=starts))
except ConfigError as error:
    raise WorkflowError(f"config: {error}")

if workflow.is_main_process:
    for line in left_out:
        logger.warning(line)

ROOT = Path(workflow.current_basedir.get_path_or_uri(secret_free=True)).parents[1]
RESULTS = config["results"]
DATASETS = config["datasets"]
FIGURE_SETTINGS = config["figures"]
LIMITS = {"minutes": config["minutes"], "memory_mb": config["memory_mb"]}  # of one training
# Functions of this configuration: a method by its name, the methods of a data set, files of runs and sweeps.
method_of = partial(result_files.method_of, config)
methods_of = partial(result_files.methods_of, config)
run_files = partial(result_files.run_files, config)
sweep_files = partial(result_files.sweep_files, config)
# Jobs in a conda environment find flrml in the working copy, and all jobs find methods in the working folder.
found = [str(ROOT) if (ROOT / "flrml").is_dir() else None, os.environ.get("PYTHONPATH"), os.getcwd()]
# Whatever the locale, jobs read and write UTF-8.
os.environ.update(PYTHONPATH=os.pathsep.join(filter(None, found)), PYTHONUTF8="1")
# Cores of this machine that a run may use, or on a cluster the most that one submission may.
# Drawing the graph needs none.
try:
    ALL_CORES = workflow.cores or 1
except WorkflowError:
    ALL_CORES = 1


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
    estimator = method_of(method).estimator.__module__
    return sorted({*source_files(estimator, deferred=config["dask_scheduler"] is not None), *sources(*modules)})


def prepared_meta(wildcards):
    return f"{RESULTS}/data/{wildcards.dataset}/meta.json"


def entry_of(dataset):
    """Return what the registry says of the source of a data set."""
    return find_dataset(DATASETS[dataset]["source"], DATASETS[dataset]["options"])


def spectrum_file(dataset, method):
    """Return the spectrum that a method takes, or nothing."""
    if not method_of(method).uses_spectrum:
        return []
    return f"{RESULTS}/svd/{dataset}/{method_of(method).spectrum_kind}.npz"


def run_settings(dataset, method, **more):
    """Return what identifies a run; its result files carry it."""
    base = method_of(method)
    common = {name: value for name, value in config["common"].items() if name in base.accepts}
    own = config["methods"].get(method, {"parameters": {}})["parameters"]
    names = {"dataset": dataset, "method": base.name, "label": method, "study": DATASETS[dataset].get("study")}
    return {**names, "parameters": {**base.parameters, **common, **own}, **more}


def swept_run(wildcards):
    """Return what identifies a point of a sweep; mini-batches may be more than in the tables."""
    figure, sweep = FIGURE_SETTINGS[wildcards.sweep], SWEEPS[wildcards.sweep]
    point = {"sweep": wildcards.sweep, "value": sweep.parse(wildcards.value), "repeats": figure["repeats"]}
    run = run_settings(wildcards.dataset, wildcards.method, n_neighbors=config["n_neighbors"], **point)
    own = {key: value for key, value in figure.items() if key == "n_batches"}
    return run | {"parameters": run["parameters"] | own}


def grown_run(wildcards):
    """Return what identifies the growth of a method with the size of a data set."""
    chosen = FIGURE_SETTINGS["growth"][wildcards.axis]
    growth = {"max_rank": config["max_rank"], "axis": wildcards.axis, "sizes": chosen["sizes"]}
    return run_settings(chosen["dataset"], wildcards.method, **growth)


def followed_run(wildcards):
    """Return what identifies the trainings that are followed per iteration: those of the tables with one seed."""
    names = ("flrml", "flrml-reference", "flrml-ridge")
    parameters = {name: run_settings(wildcards.dataset, name)["parameters"] for name in names}
    run = {"dataset": wildcards.dataset, "parameters": parameters, "seed": config["seeds"][0]}
    return run | {"n_neighbors": config["n_neighbors"], "ridges": FIGURE_SETTINGS["iterations"]["ridges"]}


def report_sources(entry):
    """Return the source files of a figure or table, and of the claims if it shows any."""
    claims = ["pipeline.report.claims"] if any(claim.figure == entry.name for claim in CLAIMS) else []
    return sources(entry.module, *claims)


def shown_file(path, entry):
    """Return an output file that the report shows, with the caption that is written next to it."""
    caption = os.path.abspath(Path(path).with_suffix(".rst"))
    return report(path, caption=caption, category=entry.category)


def all_outputs():
    """Return the files that the stages write for this configuration."""
    kinds = ("metas", *SWEEPS, "growth", "iterations")
    triplets = [f"{RESULTS}/triplets/{dataset}/seed{seed}.npy" for dataset in DATASETS for seed in config["seeds"]]
    spectra = [spectrum_file(dataset, method) for dataset in DATASETS for method in methods_of(dataset)]
    spectra = [file.removesuffix(".npz") + ending for file in spectra if file for ending in (".npz", ".json")]
    runs = [
        path for dataset in DATASETS for file in (MODEL, TRAINING, METRICS) for path in run_files(dataset, file)
    ]
    measured = [path for kind in kinds for path in result_files.files_of(config, kind)]
    return list(dict.fromkeys([*triplets, *spectra, *runs, *measured]))


@cache
def set_aside_results():
    """Return results that a full disk or a power cut left half-written, set aside, as targets of the run.

    Snakemake does not make a missing file again if all that is made from it is there. Dry runs, jobs, and commands that
    run no jobs, such as --summary, --report and --unlock, look at nothing.
    """
    runs_jobs = workflow.is_main_process and workflow.executor_plugin is not None
    if not runs_jobs or workflow.dryrun or workflow.touch:
        return []
    damaged = set_aside_damaged(RESULTS, all_outputs())
    for line in damaged.values():
        logger.warning(line)
    return list(damaged)
