# Result files → MLflow. A job per data set, then one for the experiment; a result that is logged keeps its run.
DATASETS_TRACKED = [f"{RESULTS}/mlflow/{dataset}.json" for dataset in DATASETS]
TRACKED = [*DATASETS_TRACKED, f"{RESULTS}/mlflow.json"]


onsuccess:
    for line in summary_lines(RESULTS, [*FIGURE_FILES, *TABLE_FILES], DATASETS_TRACKED):
        logger.info(line)


rule track:
    """Log the runs of a data set to MLflow."""
    input:
        metrics=lambda wildcards: run_files(wildcards.dataset),
        models=lambda wildcards: run_files(wildcards.dataset, "model.npz"),
        margin=lambda wildcards: sweep_files("margin", wildcards.dataset),
        batches=lambda wildcards: sweep_files("batches", wildcards.dataset),
        meta=prepared_meta,
        code=sources("pipeline.tracking.records"),
    output:
        f"{RESULTS}/mlflow/{{dataset}}.json",
    log:
        f"{RESULTS}/logs/track/{{dataset}}.log",
    conda:
        "../../envs/flrml.yaml"
    resources:
        mem_mb=memory(1000, 4),
        runtime=minutes(20, 20),
    params:
        experiment=lambda wildcards: config["experiment"],
        tracking_uri=config["tracking_uri"],
        n_neighbors=config["n_neighbors"],
    script:
        "../scripts/track.py"


rule track_experiment:
    """Log the experiment with its figures and tables to MLflow, as the parent of its runs."""
    input:
        drawn=[*FIGURE_FILES, *TABLE_FILES],
        results=result_files.files_of(config, "runs"),
        tracked=DATASETS_TRACKED,
        code=sources("pipeline.tracking.experiment"),
    output:
        f"{RESULTS}/mlflow.json",
    log:
        f"{RESULTS}/logs/track_experiment.log",
    conda:
        "../../envs/flrml.yaml"
    params:
        config=lambda wildcards: {name: value for name, value in config.items() if name != "tracking_uri"},
        tracking_uri=config["tracking_uri"],
    script:
        "../scripts/track_experiment.py"
