# Model → accuracy.
rule evaluate:
    input:
        meta=data,
        model=rules.train.output.model,
        record=rules.train.output.record,
        code=source("neighbors", "lab/evaluation", "lab/models") + cluster_source(),
    output:
        metrics=f"{RESULTS}/runs/{{dataset}}/{{method}}/seed{{seed}}/metrics.json",
    log:
        f"{RESULTS}/logs/evaluate/{{dataset}}-{{method}}-{{seed}}.log",
    conda:
        "../../envs/flrml.yaml"
    resources:
        mem_mb=memory(1000, 4),
        runtime=minutes(20, 60),
    params:
        n_neighbors=config["n_neighbors"],
    script:
        "../scripts/evaluate.py"
