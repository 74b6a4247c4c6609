# Models → accuracies. All methods of a data set in one job: starting Python costs more than most evaluations.
# Data sets with the same methods share a rule, because a rule has the same outputs for all its data sets.
for number, methods in enumerate(dict.fromkeys(tuple(methods_of(name)) for name in DATASETS)):

    rule:
        """Measure the 5-NN accuracies of all methods on a data set."""
        name:
            f"evaluate_{number}" if number else "evaluate"
        input:
            meta=prepared_meta,
            models=lambda wildcards: run_files(wildcards.dataset, "model.npz", wildcards.seed),
            records=lambda wildcards: run_files(wildcards.dataset, "history.json", wildcards.seed),
            code=sources("pipeline.stages.evaluate"),
        output:
            metrics=[f"{RESULTS}/runs/{{dataset}}/{method}/seed{{seed}}/metrics.json" for method in methods],
        log:
            f"{RESULTS}/logs/evaluate/{{dataset}}-{{seed}}.log",
        wildcard_constraints:
            dataset="|".join(re.escape(name) for name in DATASETS if tuple(methods_of(name)) == methods),
        conda:
            "../../envs/flrml.yaml"
        resources:
            mem_mb=memory(1000, 4),
            runtime=minutes(20, 600),
        params:
            n_neighbors=config["n_neighbors"],
        script:
            "../scripts/evaluate.py"
