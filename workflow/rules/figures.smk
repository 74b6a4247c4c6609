# Result files → figures (PDF and PNG, numbers as CSV).
FIGURES = [f"{RESULTS}/figures/{name}.pdf" for name in FIGURE_SETTINGS]


rule figure_smoothing:
    input:
        code=sources("pipeline.figures"),
    output:
        figure_outputs("smoothing", "The method"),
    log:
        f"{RESULTS}/logs/figures/smoothing.log",
    localrule: True
    conda:
        "../../envs/flrml.yaml"
    script:
        "../scripts/figure.py"


use rule figure_smoothing as figure_convergence with:
    input:
        results=convergence_runs(),
        code=sources("pipeline.figures"),
    output:
        figure_outputs("convergence", "The method"),
    log:
        f"{RESULTS}/logs/figures/convergence.log",


use rule figure_smoothing as figure_margin with:
    input:
        results=sweep_files("margin"),
        code=sources("pipeline.figures"),
    output:
        figure_outputs("margin", "Sweeps"),
    log:
        f"{RESULTS}/logs/figures/margin.log",


use rule figure_smoothing as figure_batches with:
    input:
        results=sweep_files("batches"),
        code=sources("pipeline.figures"),
    output:
        figure_outputs("batches", "Sweeps"),
    log:
        f"{RESULTS}/logs/figures/batches.log",


use rule figure_smoothing as figure_front with:
    input:
        results=all_metrics(),
        code=sources("pipeline.figures"),
    output:
        figure_outputs("front", "Beyond the paper"),
    log:
        f"{RESULTS}/logs/figures/front.log",


use rule figure_smoothing as figure_growth with:
    input:
        results=growth_files(),
        code=sources("pipeline.figures"),
    output:
        figure_outputs("growth", "Beyond the paper"),
    log:
        f"{RESULTS}/logs/figures/growth.log",


use rule figure_smoothing as figure_ridge with:
    input:
        results=[
            f"{RESULTS}/sweeps/ridge/{dataset}.json"
            for dataset in (FIGURE_SETTINGS.get("ridge") or {}).get("datasets", [])
        ],
        code=sources("pipeline.figures"),
    output:
        figure_outputs("ridge", "Beyond the paper"),
    log:
        f"{RESULTS}/logs/figures/ridge.log",
