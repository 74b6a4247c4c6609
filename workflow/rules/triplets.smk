# Labels → triplets.
rule triplets:
    input:
        meta=data,
        code=source("triplets"),
    output:
        f"{RESULTS}/triplets/{{dataset}}/seed{{seed}}.npy",
    log:
        f"{RESULTS}/logs/triplets/{{dataset}}-{{seed}}.log",
    conda:
        "../../envs/flrml.yaml"
    resources:
        mem_mb=memory(500, 1),
        runtime=5,
    params:
        n_triplets=config["n_triplets"],
    script:
        "../scripts/triplets.py"
