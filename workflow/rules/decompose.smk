# Prepared data set → SVD. The result can be shared between working copies with --cache.
rule decompose:
    """Compute the SVD of a prepared data set; --cache shares it between working copies."""
    input:
        meta=prepared_meta,
        code=sources("pipeline.stages.decompose"),
    output:
        multiext(f"{RESULTS}/svd/{{dataset}}/{{kind}}", ".npz", ".json"),
    log:
        f"{RESULTS}/logs/decompose/{{dataset}}-{{kind}}.log",
    cache: True
    priority: 1
    conda:
        "../../envs/flrml.yaml"
    threads: cores
    resources:
        mem_mb=by_size(3000, 10),
        runtime=by_size(30, 120 / 1024),
    params:
        max_rank=lambda wildcards: DATASETS[wildcards.dataset].get("max_rank", config["max_rank"]),
    script:
        "../scripts/decompose.py"
