# Raw files → prepared data set.
rule prepare:
    """Turn raw files into a prepared data set."""
    input:
        raw=lambda wildcards: raw_files(
            DATASETS[wildcards.dataset]["source"], RAW_DIR, DATASETS[wildcards.dataset]["options"]
        ),
        code=lambda wildcards: sources(
            "datasets.preparation", entry_of(wildcards.dataset).module.removeprefix("flrml.")
        ),
    output:
        meta=f"{RESULTS}/data/{{dataset}}/meta.json",
    log:
        f"{RESULTS}/logs/prepare/{{dataset}}.log",
    # Jobs of several cores come first; those of one core then run side by side to the end.
    priority: 2
    conda:
        "../../envs/flrml.yaml"
    threads: lambda wildcards: 2 if entry_of(wildcards.dataset).kind == "voxel" else 1
    resources:
        mem_mb=lambda wildcards, input, attempt: int((4000 + 3 * input.size_mb) * 2 ** (attempt - 1)),
        runtime=lambda wildcards, input, attempt: int((60 + input.size_mb / 20) * 2 ** (attempt - 1)),
    params:
        source=lambda wildcards: DATASETS[wildcards.dataset]["source"],
        entry=lambda wildcards: asdict(entry_of(wildcards.dataset)),
        options=lambda wildcards: DATASETS[wildcards.dataset]["options"],
    script:
        "../scripts/prepare.py"
