# Data, SVD, triplets → model. Timed, so each training has the cores for itself.
rule train:
    """Train one method on one data set, timed and within its limits."""
    input:
        meta=prepared_meta,
        triplets=f"{RESULTS}/triplets/{{dataset}}/seed{{seed}}.npy",
        spectrum=lambda wildcards: spectrum_file(wildcards.dataset, wildcards.method),
        code=lambda wildcards: method_sources(wildcards.method, "pipeline.stages.train"),
    output:
        model=f"{RESULTS}/runs/{{dataset}}/{{method}}/seed{{seed}}/model.npz",
        training=f"{RESULTS}/runs/{{dataset}}/{{method}}/seed{{seed}}/training.json",
    log:
        f"{RESULTS}/logs/train/{{dataset}}-{{method}}-{{seed}}.log",
    priority: 1
    conda:
        "../../envs/flrml.yaml"
    threads: cores
    resources:
        mem_mb=memory_of_training,
        runtime=minutes_of(1),
    params:
        run=lambda wildcards: run_settings(wildcards.dataset, wildcards.method, seed=int(wildcards.seed)),
        entry=lambda wildcards: method_of(wildcards.method).training_entry,
        limits=LIMITS,
    script:
        "../scripts/train.py"
