from flrml.pipeline.report.cover import write_cover
from flrml.pipeline.stages.logs import logged

with logged(snakemake.log[0]):
    write_cover(snakemake.output[0], snakemake.params.experiment, snakemake.input.summary, snakemake.input.claims)
