# Sweeps: a job per point, with all its repeats, because starting Python costs more than a training.
rule sweep:
    """Train a method at one value of a swept parameter, once per repeat."""
    input:
        meta=prepared_meta,
        spectrum=lambda wildcards: spectrum_file(wildcards.dataset, wildcards.method),
        code=lambda wildcards: method_sources(wildcards.method, "pipeline.stages.sweep"),
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
        entry=lambda wildcards: method_of(wildcards.method).training_entry,
        limits=LIMITS,
    script:
        "../scripts/sweep.py"


rule growth:
    """Measure time and memory of a method on growing parts of a data set."""
    input:
        meta=lambda wildcards: f"{RESULTS}/data/{FIGURE_SETTINGS['growth'][wildcards.axis]['dataset']}/meta.json",
        code=lambda wildcards: method_sources(wildcards.method, "pipeline.stages.growth"),
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
        run=grown_run,
        entry=lambda wildcards: method_of(wildcards.method).training_entry,
        limits=LIMITS,
    script:
        "../scripts/growth.py"


rule iterations:
    """Follow FLRML, its reference form and RidgeFLRML per iteration on a data set."""
    input:
        meta=prepared_meta,
        triplets=f"{RESULTS}/triplets/{{dataset}}/seed{config['seeds'][0]}.npy",
        plain=lambda wildcards: spectrum_file(wildcards.dataset, "flrml"),
        centered=lambda wildcards: spectrum_file(wildcards.dataset, "flrml-reference"),
        code=sources("pipeline.stages.iterations", "flrml", "reference", "ridge.estimator"),
    output:
        f"{RESULTS}/iterations/{{dataset}}.json",
    log:
        f"{RESULTS}/logs/iterations/{{dataset}}.log",
    group:
        "sweeps"
    conda:
        "../../envs/flrml.yaml"
    resources:
        mem_mb=memory_of_training,
        runtime=minutes_of(lambda wildcards: 4),
    params:
        run=followed_run,
        limits=LIMITS | {"minutes": 4 * LIMITS["minutes"]},
    script:
        "../scripts/iterations.py"
