# The bundled experiment, unless --configfile names another. The rules are in workflow/.
if "datasets" not in config:

    configfile: "config.yaml"


include: "workflow/Snakefile"


workflow.default_target = "all"  # a rule of an included file is not the default target by itself
