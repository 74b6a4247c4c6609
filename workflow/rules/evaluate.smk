# Model → accuracy and predictions.
rule evaluate:
    """Measure the accuracy of a trained model by nearest neighbours."""
    input:
        meta=prepared_meta,
        model=rules.train.output.model,
        training=rules.train.output.training,
        code=sources("pipeline.stages.evaluate"),
    output:
        metrics=f"{RESULTS}/runs/{{dataset}}/{{method}}/seed{{seed}}/metrics.json",
        predictions=f"{RESULTS}/runs/{{dataset}}/{{method}}/seed{{seed}}/predictions.csv",
    log:
        f"{RESULTS}/logs/evaluate/{{dataset}}-{{method}}-{{seed}}.log",
    conda:
        "../../envs/flrml.yaml"
    resources:
        mem_mb=by_size(1000, 4),
        runtime=by_size(20, 600 / 1024),
    params:
        n_neighbors=config["n_neighbors"],
        cosine_rows=lambda wildcards: DATASETS[wildcards.dataset].get("cosine_rows"),
    script:
        "../scripts/evaluate.py"
