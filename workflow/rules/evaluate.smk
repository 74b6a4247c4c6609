# Models → accuracies. All methods of a data set in one job: starting Python costs more than most evaluations.
rule evaluate:
    input:
        meta=data,
        models=lambda wildcards: results_of(wildcards.dataset, "model.npz", wildcards.seed),
        records=lambda wildcards: results_of(wildcards.dataset, "history.json", wildcards.seed),
        code=source("neighbors", "pipeline/evaluation", "pipeline/models") + cluster_source(),
    output:
        metrics=[f"{RESULTS}/runs/{{dataset}}/{method}/seed{{seed}}/metrics.json" for method in config["methods"]],
    log:
        f"{RESULTS}/logs/evaluate/{{dataset}}-{{seed}}.log",
    wildcard_constraints:
        dataset=on_datasets(svd=True),
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
    output:
        metrics=[
            f"{RESULTS}/runs/{{dataset}}/{method}/seed{{seed}}/metrics.json"
            for method in config["methods"]
            if not METHODS[method].uses_spectrum
        ],
    wildcard_constraints:
        dataset=on_datasets(svd=False),
