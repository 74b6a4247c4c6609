# Result files → figures (PDF and PNG, numbers as CSV).
FIGURES = [f"{RESULTS}/figures/{name}.pdf" for name in FIGURE_SETTINGS if name != "front" or all_metrics()]


# `use rule` does not pass `localrule` on.
localrules:
    figure_convergence,
    figure_margin,
    figure_batches,
    figure_front,
    figure_growth,
    figure_ridge,


rule figure_smoothing:
    """Draw the smooth function μ(x)."""
    input:
        caption=caption_file("smoothing"),
        code=sources("pipeline.report.figures", "pipeline.report.captions"),
    output:
        figure_outputs("smoothing", "The method"),
    log:
        f"{RESULTS}/logs/figures/smoothing.log",
    priority: 3
    localrule: True
    conda:
        "../../envs/flrml.yaml"
    script:
        "../scripts/figure.py"


use rule figure_smoothing as figure_convergence with:
    """Draw the objective per iteration."""
    input:
        results=convergence_runs(),
        caption=caption_file("convergence"),
        code=sources("pipeline.report.figures", "pipeline.report.captions"),
    output:
        figure_outputs("convergence", "The method"),
    log:
        f"{RESULTS}/logs/figures/convergence.log",


use rule figure_smoothing as figure_margin with:
    """Draw accuracy against the margin ratio."""
    input:
        results=sweep_files("margin"),
        caption=caption_file("margin"),
        code=sources("pipeline.report.figures", "pipeline.report.captions"),
    output:
        figure_outputs("margin", "Sweeps"),
    log:
        f"{RESULTS}/logs/figures/margin.log",


use rule figure_smoothing as figure_batches with:
    """Draw accuracy against the number of mini-batches."""
    input:
        results=sweep_files("batches"),
        caption=caption_file("batches"),
        code=sources("pipeline.report.figures", "pipeline.report.captions"),
    output:
        figure_outputs("batches", "Sweeps"),
    log:
        f"{RESULTS}/logs/figures/batches.log",


use rule figure_smoothing as figure_front with:
    """Draw accuracy against training time of all methods."""
    input:
        results=all_metrics(),
        caption=caption_file("front"),
        code=sources("pipeline.report.figures", "pipeline.report.captions"),
    output:
        figure_outputs("front", "Beyond the paper"),
    log:
        f"{RESULTS}/logs/figures/front.log",


use rule figure_smoothing as figure_growth with:
    """Draw time and memory against the size of the data."""
    input:
        results=growth_files(),
        caption=caption_file("growth"),
        code=sources("pipeline.report.figures", "pipeline.report.captions"),
    output:
        figure_outputs("growth", "Beyond the paper"),
    log:
        f"{RESULTS}/logs/figures/growth.log",


use rule figure_smoothing as figure_ridge with:
    """Draw the methods per iteration, and RidgeFLRML against its ridge."""
    input:
        results=variant_files(),
        caption=caption_file("ridge"),
        code=sources("pipeline.report.figures", "pipeline.report.captions"),
    output:
        figure_outputs("ridge", "Beyond the paper"),
    log:
        f"{RESULTS}/logs/figures/ridge.log",
