# The bundled experiment, unless --configfile names another. The rules are in workflow/.
if "datasets" not in config:

    configfile: "config.yaml"


include: "workflow/Snakefile"
