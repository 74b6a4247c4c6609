# Result files → MLflow. A job per data set; logging again replaces.
TRACKED = [f"{RESULTS}/mlflow/{dataset}.json" for dataset in DATASETS]


rule track:
    input:
        metrics=lambda wildcards: run_files(wildcards.dataset),
        models=lambda wildcards: run_files(wildcards.dataset, "model.npz"),
        margin=lambda wildcards: sweep_files("margin", wildcards.dataset),
        batches=lambda wildcards: sweep_files("batches", wildcards.dataset),
        meta=prepared_meta,
        code=sources("pipeline.records"),
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
