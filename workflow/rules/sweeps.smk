# Sweeps: a job per point, with all its repeats, because starting Python costs more than a training.
LEARNING = source(
    "estimators",
    "minibatch",
    "metric",
    "loss",
    "stiefel",
    "triplets",
    "rows",
    "neighbors",
    "pipeline/sweeps",
    "pipeline/limits",
)


rule sweep_margin:
    input:
        meta=data,
        spectrum=lambda wildcards: spectrum_of(wildcards.dataset, FIGURE_SETTINGS["margin"]["method"]),
        code=LEARNING,
    output:
        f"{RESULTS}/sweeps/margin/{{dataset}}/{{value}}.json",
    log:
        f"{RESULTS}/logs/sweeps/margin-{{dataset}}-{{value}}.log",
    group:
        "sweeps"
    conda:
        "../../envs/flrml.yaml"
    resources:
        mem_mb=memory_of_training,
        runtime=minutes_of(lambda wildcards: FIGURE_SETTINGS["margin"]["repeats"]),
    params:
        run=lambda wildcards: run_of(
            wildcards.dataset, FIGURE_SETTINGS["margin"]["method"], n_neighbors=config["n_neighbors"]
        ),
        repeats=lambda wildcards: FIGURE_SETTINGS["margin"]["repeats"],
        minutes=config["minutes"],
        memory_mb=config["memory_mb"],
    script:
        "../scripts/sweep_margin.py"


rule sweep_batches:
    input:
        meta=data,
        code=LEARNING,
    output:
        f"{RESULTS}/sweeps/batches/{{dataset}}/{{value}}.json",
    log:
        f"{RESULTS}/logs/sweeps/batches-{{dataset}}-{{value}}.log",
    group:
        "sweeps"
    conda:
        "../../envs/flrml.yaml"
    resources:
        mem_mb=memory_of_training,
        runtime=minutes_of(lambda wildcards: FIGURE_SETTINGS["batches"]["repeats"]),
    params:
        run=lambda wildcards: run_of(
            wildcards.dataset, FIGURE_SETTINGS["batches"]["method"], n_neighbors=config["n_neighbors"]
        ),
        repeats=lambda wildcards: FIGURE_SETTINGS["batches"]["repeats"],
        minutes=config["minutes"],
        memory_mb=config["memory_mb"],
    script:
        "../scripts/sweep_batches.py"


rule growth:
    input:
        meta=lambda wildcards: f"{RESULTS}/data/{FIGURE_SETTINGS['growth'][wildcards.axis]['dataset']}/meta.json",
        code=LEARNING,
    output:
        f"{RESULTS}/growth/{{axis}}/{{method}}.json",
    log:
        f"{RESULTS}/logs/growth/{{axis}}-{{method}}.log",
    priority: 1
    conda:
        "../../envs/flrml.yaml"
    threads: cores
    resources:
        mem_mb=memory_of_training,
        runtime=minutes_of(lambda wildcards: len(FIGURE_SETTINGS["growth"][wildcards.axis]["sizes"])),
    params:
        run=lambda wildcards: run_of(
            FIGURE_SETTINGS["growth"][wildcards.axis]["dataset"], wildcards.method, max_rank=config["max_rank"]
        ),
        sizes=lambda wildcards: FIGURE_SETTINGS["growth"][wildcards.axis]["sizes"],
        minutes=config["minutes"],
        memory_mb=config["memory_mb"],
    script:
        "../scripts/growth.py"


rule explain:
    input:
        meta=data,
        plain=lambda wildcards: spectrum_of(wildcards.dataset, "flrml"),
        centred=lambda wildcards: spectrum_of(wildcards.dataset, "flrml-reference"),
        code=[*LEARNING, *source("ridge", "search", "supervision", "pipeline/variants")],
    output:
        f"{RESULTS}/sweeps/ridge/{{dataset}}.json",
    log:
        f"{RESULTS}/logs/sweeps/ridge-{{dataset}}.log",
    group:
        "sweeps"
    conda:
        "../../envs/flrml.yaml"
    resources:
        mem_mb=memory_of_training,
        runtime=minutes_of(lambda wildcards: 4),
    params:
        run=lambda wildcards: run_of(wildcards.dataset, "flrml-ridge", n_neighbors=config["n_neighbors"]),
        ridges=lambda wildcards: FIGURE_SETTINGS["ridge"]["ridges"],
        minutes=4 * config["minutes"],
        memory_mb=config["memory_mb"],
    script:
        "../scripts/variants.py"
