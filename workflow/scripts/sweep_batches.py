from pathlib import Path

from flrml.pipeline.logs import logged
from flrml.pipeline.sweeps import summary, sweep_batches

with logged(snakemake.log[0]) as say:
    result = sweep_batches(
        Path(snakemake.input.meta).parent,
        snakemake.output[0],
        run=snakemake.params.run,
        batch_triplets=int(snakemake.wildcards.value),
        seeds=range(snakemake.params.repeats),
        minutes=snakemake.params.minutes,
        memory_mb=snakemake.params.memory_mb,
    )
    say(f"{result['dataset']:>14} N_t = {result['batch_triplets']:<5}            {summary(result['points'])}")
