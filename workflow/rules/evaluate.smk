# Models → accuracies. All methods of a data set in one job: starting Python costs more than most evaluations.
rule evaluate:
    """Measure the 5-NN accuracies of all methods on a data set."""
    input:
        meta=prepared_meta,
        models=lambda wildcards: run_files(wildcards.dataset, "model.npz", wildcards.seed),
        records=lambda wildcards: run_files(wildcards.dataset, "history.json", wildcards.seed),
        code=sources("pipeline.evaluation"),
    output:
        metrics=[f"{RESULTS}/runs/{{dataset}}/{method}/seed{{seed}}/metrics.json" for method in config["methods"]],
    log:
        f"{RESULTS}/logs/evaluate/{{dataset}}-{{seed}}.log",
    wildcard_constraints:
        dataset=datasets_pattern(svd=True),
    conda:
        "../../envs/flrml.yaml"
    resources:
        mem_mb=memory(1000, 4),
        runtime=minutes(20, 600),
    params:
        n_neighbors=config["n_neighbors"],
    script:
        "../scripts/evaluate.py"


use rule evaluate as evaluate_without_svd with:
    """Measure the 5-NN accuracies on a data set without an SVD."""
    output:
        metrics=[
            f"{RESULTS}/runs/{{dataset}}/{method}/seed{{seed}}/metrics.json"
            for method in config["methods"]
            if not method_of(method).uses_spectrum
        ],
    wildcard_constraints:
        dataset=datasets_pattern(svd=False),
