# Labels → triplets.
rule triplets:
    """Draw triplets from the labels."""
    input:
        meta=prepared_meta,
        code=sources("pipeline.stages.draw_triplets"),
    output:
        f"{RESULTS}/triplets/{{dataset}}/seed{{seed}}.npy",
    log:
        f"{RESULTS}/logs/triplets/{{dataset}}-{{seed}}.log",
    localrule: True
    conda:
        "../../envs/flrml.yaml"
    params:
        n_triplets=config["n_triplets"],
    script:
        "../scripts/triplets.py"
