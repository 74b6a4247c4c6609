# Result files → tables (CSV, Markdown, LaTeX).
TABLE_NAMES = ["datasets", "complexity", "with_svd", "without_svd"]
if any(name in REGISTRY and REGISTRY[name].paper for name in DATASETS):
    TABLE_NAMES.append("reproduction")
TABLES = [f"{RESULTS}/tables/{name}.md" for name in TABLE_NAMES]


rule table_datasets:
    input:
        metas=expand(f"{RESULTS}/data/{{dataset}}/meta.json", dataset=DATASETS),
        code=source("pipeline/tables"),
    output:
        written("datasets"),
    log:
        f"{RESULTS}/logs/tables/datasets.log",
    localrule: True
    conda:
        "../../envs/flrml.yaml"
    script:
        "../scripts/table.py"


rule table_complexity:
    input:
        results=all_results(),
        code=source("pipeline/tables", "pipeline/paper"),
    output:
        written("complexity"),
    log:
        f"{RESULTS}/logs/tables/complexity.log",
    localrule: True
    conda:
        "../../envs/flrml.yaml"
    script:
        "../scripts/table.py"


rule table_with_svd:
    input:
        results=all_results(),
        metas=expand(f"{RESULTS}/data/{{dataset}}/meta.json", dataset=DATASETS),
        svd=[f"{RESULTS}/svd/{name}/plain.json" for name in DATASETS if settings(name)["svd"]],
        code=source("pipeline/tables", "pipeline/paper"),
    output:
        written("with_svd"),
    log:
        f"{RESULTS}/logs/tables/with_svd.log",
    localrule: True
    conda:
        "../../envs/flrml.yaml"
    script:
        "../scripts/table.py"


rule table_without_svd:
    input:
        results=all_results(),
        metas=expand(f"{RESULTS}/data/{{dataset}}/meta.json", dataset=DATASETS),
        code=source("pipeline/tables", "pipeline/paper"),
    output:
        written("without_svd"),
    log:
        f"{RESULTS}/logs/tables/without_svd.log",
    localrule: True
    conda:
        "../../envs/flrml.yaml"
    script:
        "../scripts/table.py"


rule table_reproduction:
    input:
        results=all_results(),
        metas=expand(f"{RESULTS}/data/{{dataset}}/meta.json", dataset=DATASETS),
        code=source("pipeline/tables", "pipeline/paper"),
    output:
        written("reproduction"),
    log:
        f"{RESULTS}/logs/tables/reproduction.log",
    localrule: True
    conda:
        "../../envs/flrml.yaml"
    script:
        "../scripts/table.py"
