# The checked configuration, and functions that name files; shared by all rules.
import os
from dataclasses import asdict
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from flrml.datasets.registry import REGISTRY, find_dataset, raw_files
from flrml.methods import METHODS
from flrml.pipeline.config.at_hand import Addresses, leave_out_missing
from flrml.pipeline.config.resolve import ConfigError, resolve
from flrml.pipeline.config.expansion import methods_on
from flrml.pipeline.repair import set_aside_damaged
from flrml.pipeline.stages.logs import summary_lines
from flrml.pipeline.sources import source_files
from flrml.pipeline.layout import METRICS, MODEL, SWEEPS, TRAINING

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
# Jobs in a conda environment find flrml in the working copy too.
if (ROOT / "flrml").is_dir():
    os.environ.update(PYTHONPATH=os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))
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
    return sources(method_of(method).estimator.__module__.removeprefix("flrml."), *modules)


def prepared_meta(wildcards):
    return f"{RESULTS}/data/{wildcards.dataset}/meta.json"


def settings(dataset):
    return DATASETS[dataset] or {}


def entry_of(dataset):
    """Return what the registry says of the source of a data set."""
    return find_dataset(settings(dataset)["source"], settings(dataset)["options"])


def method_of(name):
    """Return the registered method that a name of the configuration stands for."""
    return METHODS[config["methods"][name]["method"] if name in config["methods"] else name]


def methods_of(dataset):
    """Return the methods that run on a data set."""
    svd = settings(dataset)["svd"]
    chosen = methods_on(settings(dataset), config["methods"])
    return [name for name in chosen if svd or not method_of(name).uses_spectrum]


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


def run_files(dataset, file="metrics.json", seed=None):
    """Return a file of every run on a data set, with one seed or with all."""
    return [
        f"{RESULTS}/runs/{dataset}/{method}/seed{each}/{file}"
        for method in methods_of(dataset)
        for each in (config["seeds"] if seed is None else [seed])
    ]


def all_metrics():
    """Return the metrics of all methods under their own names, on data sets with their own test parts."""
    return [
        f"{RESULTS}/runs/{dataset}/{method}/seed{seed}/metrics.json"
        for dataset in DATASETS
        if "study" not in settings(dataset)
        for method in methods_of(dataset)
        if method == method_of(method).name
        for seed in config["seeds"]
    ]


def study_metrics():
    """Return the metrics of runs on splits, and of methods under other names."""
    return sorted({path for dataset in DATASETS for path in run_files(dataset)} - set(all_metrics()))


def sweep_files(sweep, dataset=None):
    """Return the result files of a sweep, of one data set or of all."""
    chosen = FIGURE_SETTINGS.get(sweep)
    if not chosen:
        return []
    datasets = [name for name in chosen["datasets"] if dataset in (None, name)]
    return [
        f"{RESULTS}/sweeps/{sweep}/{name}/{method}/{value}/point.json"
        for name in datasets
        for method in chosen["methods"]
        for value in chosen[SWEEPS[sweep].values]
    ]


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


def growth_files():
    return [
        f"{RESULTS}/growth/{axis}/{method}.json"
        for axis, chosen in (FIGURE_SETTINGS.get("growth") or {}).items()
        for method in chosen["methods"]
    ]


def variant_files():
    """Return the results of the three methods followed side by side."""
    chosen = (FIGURE_SETTINGS.get("ridge") or {}).get("datasets", [])
    return [f"{RESULTS}/sweeps/ridge/{dataset}.json" for dataset in chosen]


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
    """Return the output files of a figure; the PNG goes into the report with the caption that the figure writes."""
    stem = f"{RESULTS}/figures/{name}"
    png = report(f"{stem}.png", caption=os.path.abspath(f"{stem}.rst"), category=category)
    return [f"{stem}.pdf", png, f"{stem}.csv", f"{stem}.rst"]


def caption_file(name):
    """Return the text that a figure's caption starts with."""
    return os.path.relpath(ROOT / "workflow" / "report" / f"figure_{name}.rst")


def table_outputs(name):
    """Return the output files of a table; the page that sorts goes into the report."""
    stem = f"{RESULTS}/tables/{name}"
    page = report(f"{stem}.html", caption=f"../report/table_{name}.rst", category="Tables")
    return [f"{stem}.md", f"{stem}.csv", f"{stem}.tex", page]


def all_outputs():
    """Return the files that the stages write for this configuration."""
    metas = [f"{RESULTS}/data/{dataset}/meta.json" for dataset in DATASETS]
    triplets = [f"{RESULTS}/triplets/{dataset}/seed{seed}.npy" for dataset in DATASETS for seed in config["seeds"]]
    spectra = [spectrum_file(dataset, method) for dataset in DATASETS for method in methods_of(dataset)]
    spectra = [file.removesuffix(".npz") + ending for file in spectra if file for ending in (".npz", ".json")]
    runs = [run_files(dataset, file) for dataset in DATASETS for file in (MODEL, TRAINING, METRICS)]
    measured = [file for sweep in SWEEPS for file in sweep_files(sweep)] + growth_files() + variant_files()
    return list(dict.fromkeys([*metas, *triplets, *spectra, *sum(runs, []), *measured]))


# Files that a full disk or a power cut left half-written are targets of the run, because Snakemake does not make a
# missing file again if all that is made from it is there. Dry runs and jobs do not look.
DAMAGED = set_aside_damaged(RESULTS, all_outputs()) if starts else {}
for line in DAMAGED.values():
    logger.warning(line)
