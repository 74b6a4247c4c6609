# Result files → figures (PDF and PNG, numbers as CSV), tables (CSV, Markdown, LaTeX, HTML) and the report's cover.
# A rule per entry of the catalog. What an entry says is a parameter of its job, so that a change makes it again.
from flrml.pipeline.report.catalog import FIGURES, TABLES

FIGURE_FILES = [f"{RESULTS}/figures/{name}.pdf" for name in result_files.figures_of(config)]
TABLE_FILES = [f"{RESULTS}/tables/{name}.md" for name in result_files.tables_of(config)]
SHOWS_CLAIMS = f"{RESULTS}/tables/claims.md" in TABLE_FILES  # not for own data
COVER_FILES = [f"{RESULTS}/report_cover.rst"] if result_files.files_of(config, "runs") else []
if COVER_FILES:

    report: os.path.abspath(COVER_FILES[0])


for entry in FIGURES.values():

    rule:
        """Draw a figure of the catalog."""
        name:
            f"figure_{entry.name}"
        input:
            **result_files.inputs_of(config, entry),
            code=report_sources(entry),
        output:
            multiext(f"{RESULTS}/figures/{entry.name}", ".pdf", ".csv", ".rst"),
            shown_file(f"{RESULTS}/figures/{entry.name}.png", entry),
        log:
            f"{RESULTS}/logs/figures/{entry.name}.log",
        priority: 3
        localrule: True
        conda:
            "../../envs/flrml.yaml"
        params:
            function=entry.function,
            caption=entry.caption,
            methods=result_files.shown_methods(config, entry),
            positions=result_files.dataset_positions(config, entry.name),
            shows_claims=SHOWS_CLAIMS,
        script:
            "../scripts/figure.py"


for entry in TABLES.values():

    rule:
        """Write a table of the catalog."""
        name:
            f"table_{entry.name}"
        input:
            **result_files.inputs_of(config, entry),
            code=report_sources(entry),
        output:
            multiext(f"{RESULTS}/tables/{entry.name}", ".md", ".csv", ".tex", ".rst"),
            shown_file(f"{RESULTS}/tables/{entry.name}.html", entry),
        log:
            f"{RESULTS}/logs/tables/{entry.name}.log",
        localrule: True
        conda:
            "../../envs/flrml.yaml"
        params:
            function=entry.function,
            caption=entry.caption,
            methods=result_files.shown_methods(config, entry),
            missing=MISSING,
        script:
            "../scripts/table.py"


rule report_cover:
    """Write the cover of the report."""
    input:
        summary=f"{RESULTS}/tables/summary.csv",
        claims=f"{RESULTS}/tables/claims.csv" if SHOWS_CLAIMS else [],
        code=sources("pipeline.report.cover"),
    output:
        f"{RESULTS}/report_cover.rst",
    log:
        f"{RESULTS}/logs/report_cover.log",
    localrule: True
    conda:
        "../../envs/flrml.yaml"
    params:
        experiment=lambda wildcards: config["experiment"],
    script:
        "../scripts/report_cover.py"
