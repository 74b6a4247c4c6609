from flrml.pipeline.report.captions import write_front_page
from flrml.pipeline.stages.logs import logged

with logged(snakemake.log[0]):
    write_front_page(
        snakemake.output[0], snakemake.params.experiment, snakemake.input.summary, snakemake.input.claims
    )
