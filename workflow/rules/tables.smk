# Result files → tables (CSV, Markdown, LaTeX).
TABLE_NAMES = ["splits"] if study_metrics() else []
if all_metrics():
    TABLE_NAMES += ["summary", "claims", "datasets", "complexity", "with_svd", "without_svd", "memory"]
if any(REGISTRY[d["source"]].paper for d in DATASETS.values() if d["source"] in REGISTRY and "study" not in d):
    TABLE_NAMES.append("reproduction")
TABLES = [f"{RESULTS}/tables/{name}.md" for name in TABLE_NAMES]
FRONT_PAGE = [f"{RESULTS}/front_page.rst"] if all_metrics() else []
if all_metrics():

    report: os.path.abspath(FRONT_PAGE[0])


SVD_RECORDS = [
    f"{RESULTS}/svd/{name}/plain.json"
    for name in DATASETS
    if any(method_of(method).uses_spectrum for method in methods_of(name))
]
METAS = expand(f"{RESULTS}/data/{{dataset}}/meta.json", dataset=DATASETS)


localrules:
    table_complexity,
    table_summary,
    table_with_svd,
    table_without_svd,
    table_reproduction,
    table_memory,
    table_claims,
    table_splits,


rule table_datasets:
    """Write the data sets beside the paper's Table 1."""
    input:
        metas=METAS,
        code=sources("pipeline.report.comparison"),
    output:
        table_outputs("datasets"),
    log:
        f"{RESULTS}/logs/tables/datasets.log",
    localrule: True
    conda:
        "../../envs/flrml.yaml"
    params:
        missing=MISSING,
    script:
        "../scripts/table.py"


use rule table_datasets as table_complexity with:
    """Write the paper's Table 2 with ours and measured exponents."""
    input:
        growth=growth_files(),
        code=sources("pipeline.report.comparison"),
    output:
        table_outputs("complexity"),
    log:
        f"{RESULTS}/logs/tables/complexity.log",


use rule table_datasets as table_summary with:
    """Write RidgeFLRML beside cosine, FLRML and the best other method."""
    input:
        results=all_metrics(),
        svd=SVD_RECORDS,
        code=sources("pipeline.report.comparison"),
    output:
        table_outputs("summary"),
    log:
        f"{RESULTS}/logs/tables/summary.log",


use rule table_datasets as table_with_svd with:
    """Write the methods on an SVD beside the paper's Table 3."""
    input:
        results=all_metrics(),
        metas=METAS,
        svd=SVD_RECORDS,
        code=sources("pipeline.report.comparison"),
    output:
        table_outputs("with_svd"),
    log:
        f"{RESULTS}/logs/tables/with_svd.log",


use rule table_datasets as table_without_svd with:
    """Write the methods on the data beside the paper's Table 4."""
    input:
        results=all_metrics(),
        metas=METAS,
        code=sources("pipeline.report.comparison"),
    output:
        table_outputs("without_svd"),
    log:
        f"{RESULTS}/logs/tables/without_svd.log",


use rule table_datasets as table_reproduction with:
    """Write FLRML and M-FLRML beside the paper and its authors' code."""
    input:
        results=all_metrics(),
        metas=METAS,
        code=sources("pipeline.report.comparison"),
    output:
        table_outputs("reproduction"),
    log:
        f"{RESULTS}/logs/tables/reproduction.log",


use rule table_datasets as table_memory with:
    """Write the peak memory of every training."""
    input:
        results=all_metrics(),
        code=sources("pipeline.report.comparison"),
    output:
        table_outputs("memory"),
    log:
        f"{RESULTS}/logs/tables/memory.log",


use rule table_datasets as table_claims with:
    """Write the paper's claims, our measurements and whether they agree."""
    input:
        results=all_metrics(),
        margin=sweep_files("margin"),
        batches=sweep_files("batches"),
        growth=growth_files(),
        steps=variant_files(),
        svd=SVD_RECORDS,
        code=sources("pipeline.report.comparison"),
    output:
        table_outputs("claims"),
    log:
        f"{RESULTS}/logs/tables/claims.log",


use rule table_datasets as table_splits with:
    """Write mean and deviation of every method over splits of training parts."""
    input:
        results=study_metrics(),
        code=sources("pipeline.report.comparison"),
    output:
        table_outputs("splits"),
    log:
        f"{RESULTS}/logs/tables/splits.log",


rule front_page:
    """Write the first page of the report."""
    input:
        summary=f"{RESULTS}/tables/summary.csv",
        claims=f"{RESULTS}/tables/claims.csv",
        code=sources("pipeline.report.captions"),
    output:
        f"{RESULTS}/front_page.rst",
    log:
        f"{RESULTS}/logs/front_page.log",
    localrule: True
    conda:
        "../../envs/flrml.yaml"
    params:
        experiment=lambda wildcards: config["experiment"],
    script:
        "../scripts/front_page.py"
