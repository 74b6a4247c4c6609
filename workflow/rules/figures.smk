# Result files → figures (PDF and PNG, numbers as CSV).
FIGURES = [f"{RESULTS}/figures/{name}.pdf" for name in FIGURE_SETTINGS]


def drawn(name, category):
    """Output files of a figure; the PNG goes into the report."""
    stem = f"{RESULTS}/figures/{name}"
    caption = f"../report/figure_{name}.rst"
    return [f"{stem}.pdf", report(f"{stem}.png", caption=caption, category=category), f"{stem}.csv"]


def on_datasets(figure):
    chosen = (FIGURE_SETTINGS.get(figure) or {}).get("datasets", [])
    variants = [m for m in ("flrml", "flrml-reference") if m in config["methods"]]
    return [f"{RESULTS}/runs/{d}/{m}/seed{config['seeds'][0]}/metrics.json" for d in chosen for m in variants]


rule figure_smoothing:
    input:
        code=source("lab/figures", "loss"),
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
        results=on_datasets("convergence"),
        code=source("lab/figures"),
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
        code=source("lab/figures"),
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
        code=source("lab/figures"),
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
        code=source("lab/figures"),
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
        code=source("lab/figures"),
    output:
        drawn("growth", "Beyond the paper"),
    log:
        f"{RESULTS}/logs/figures/growth.log",
    localrule: True
    conda:
        "../../envs/flrml.yaml"
    script:
        "../scripts/figure.py"
