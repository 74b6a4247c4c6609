# Data → SVD → triplets → training → evaluation → figures, tables, MLflow. README.md tells how to use it.
# The bundled default, unless --configfile names another experiment.
if "datasets" not in config:

    configfile: "config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/resources.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/decompose.smk"
include: "workflow/rules/triplets.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/sweeps.smk"
include: "workflow/rules/track.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/tables.smk"


rule all:
    default_target: True
    input:
        FIGURES,
        TABLES,
        TRACKED,
