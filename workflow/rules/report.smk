# Result files → figures (PDF and PNG, numbers as CSV), tables (CSV, Markdown, LaTeX, HTML).
# A rule per entry of the catalog. What an entry says is a parameter of its job, so that a change makes it again.
from flrml.pipeline.report.catalog import FIGURES, TABLES

REPORT_FILES = [f"{RESULTS}/{entry.files[0]}" for entry in result_files.entries_of(config)]
SHOWS_CLAIMS = f"{RESULTS}/tables/claims.md" in REPORT_FILES  # not for own data


report: "../report.rst"


for entry in [*FIGURES.values(), *TABLES.values()]:

    rule:
        """Make a figure or a table of the catalog."""
        name:
            entry.rule
        input:
            **result_files.inputs_of(config, entry),
            code=report_sources(entry),
        output:
            [f"{RESULTS}/{file}" for file in entry.files[:-1]],
            shown_file(f"{RESULTS}/{entry.files[-1]}", entry),
        log:
            f"{RESULTS}/logs/{entry.folder}/{entry.name}.log",
        priority: 3
        localrule: True
        conda:
            "../../envs/flrml.yaml"
        params:
            function=entry.function,
            caption=entry.caption,
            methods=result_files.shown_methods(config, entry),
            positions=result_files.dataset_positions(config, entry.name),
            missing=MISSING if entry.name in TABLES else {},
            shows_claims=SHOWS_CLAIMS and entry.name in FIGURES,
        script:
            "../scripts/show.py"
