# Result files → figures (PDF and PNG, numbers as CSV).
FIGURES = [f"{RESULTS}/figures/{name}.pdf" for name in FIGURE_SETTINGS]


rule figure_smoothing:
    input:
        code=source("pipeline/figures", "loss"),
    output:
        drawn("smoothing", "The method"),
    log:
        f"{RESULTS}/logs/figures/smoothing.log",
    localrule: True
    conda:
        "../../envs/flrml.yaml"
    script:
        "../scripts/figure.py"


rule figure_convergence:
    input:
        results=converging(),
        code=source("pipeline/figures"),
    output:
        drawn("convergence", "The method"),
    log:
        f"{RESULTS}/logs/figures/convergence.log",
    localrule: True
    conda:
        "../../envs/flrml.yaml"
    script:
        "../scripts/figure.py"


rule figure_margin:
    input:
        results=sweep_points("margin"),
        code=source("pipeline/figures"),
    output:
        drawn("margin", "Sweeps"),
    log:
        f"{RESULTS}/logs/figures/margin.log",
    localrule: True
    conda:
        "../../envs/flrml.yaml"
    script:
        "../scripts/figure.py"


rule figure_batches:
    input:
        results=sweep_points("batches"),
        code=source("pipeline/figures"),
    output:
        drawn("batches", "Sweeps"),
    log:
        f"{RESULTS}/logs/figures/batches.log",
    localrule: True
    conda:
        "../../envs/flrml.yaml"
    script:
        "../scripts/figure.py"


rule figure_front:
    input:
        results=all_results(),
        code=source("pipeline/figures"),
    output:
        drawn("front", "Beyond the paper"),
    log:
        f"{RESULTS}/logs/figures/front.log",
    localrule: True
    conda:
        "../../envs/flrml.yaml"
    script:
        "../scripts/figure.py"


rule figure_growth:
    input:
        results=growth_points(),
        code=source("pipeline/figures"),
    output:
        drawn("growth", "Beyond the paper"),
    log:
        f"{RESULTS}/logs/figures/growth.log",
    localrule: True
    conda:
        "../../envs/flrml.yaml"
    script:
        "../scripts/figure.py"


rule figure_ridge:
    input:
        results=[
            f"{RESULTS}/sweeps/ridge/{dataset}.json"
            for dataset in (FIGURE_SETTINGS.get("ridge") or {}).get("datasets", [])
        ],
        code=source("pipeline/figures"),
    output:
        drawn("ridge", "Beyond the paper"),
    log:
        f"{RESULTS}/logs/figures/ridge.log",
    localrule: True
    conda:
        "../../envs/flrml.yaml"
    script:
        "../scripts/figure.py"
