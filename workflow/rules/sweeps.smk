# Sweeps: a job per point, with all its repeats, because starting Python costs more than a training.
rule sweep:
    """Train a method at one value of a swept parameter, once per repeat."""
    input:
        meta=prepared_meta,
        spectrum=lambda wildcards: spectrum_file(wildcards.dataset, wildcards.method),
        code=lambda wildcards: method_sources(wildcards.method, "pipeline.sweeps"),
    output:
        f"{RESULTS}/sweeps/{{sweep}}/{{dataset}}/{{method}}/{{value}}/point.json",
    log:
        f"{RESULTS}/logs/sweeps/{{sweep}}-{{dataset}}-{{method}}-{{value}}.log",
    group:
        "sweeps"
    conda:
        "../../envs/flrml.yaml"
    resources:
        mem_mb=memory_of_training,
        runtime=minutes_of(lambda wildcards: FIGURE_SETTINGS[wildcards.sweep]["repeats"]),
    params:
        run=swept_run,
        repeats=lambda wildcards: FIGURE_SETTINGS[wildcards.sweep]["repeats"],
        minutes=config["minutes"],
        memory_mb=config["memory_mb"],
    script:
        "../scripts/sweep.py"


rule growth:
    """Measure time and memory of a method on growing parts of a data set."""
    input:
        meta=lambda wildcards: f"{RESULTS}/data/{FIGURE_SETTINGS['growth'][wildcards.axis]['dataset']}/meta.json",
        code=lambda wildcards: method_sources(wildcards.method, "pipeline.sweeps"),
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
        run=lambda wildcards: run_settings(
            FIGURE_SETTINGS["growth"][wildcards.axis]["dataset"], wildcards.method, max_rank=config["max_rank"]
        ),
        sizes=lambda wildcards: FIGURE_SETTINGS["growth"][wildcards.axis]["sizes"],
        minutes=config["minutes"],
        memory_mb=config["memory_mb"],
    script:
        "../scripts/growth.py"


rule variants:
    """Follow FLRML, its reference form and RidgeFLRML per iteration on a data set."""
    input:
        meta=prepared_meta,
        plain=lambda wildcards: spectrum_file(wildcards.dataset, "flrml"),
        centered=lambda wildcards: spectrum_file(wildcards.dataset, "flrml-reference"),
        code=sources("pipeline.variants", "flrml", "reference", "ridge.estimator"),
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
        run=lambda wildcards: run_settings(wildcards.dataset, "flrml-ridge", n_neighbors=config["n_neighbors"]),
        ridges=lambda wildcards: FIGURE_SETTINGS["ridge"]["ridges"],
        minutes=4 * config["minutes"],
        memory_mb=config["memory_mb"],
    script:
        "../scripts/variants.py"
