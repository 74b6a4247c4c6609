from pathlib import Path

from flrml.pipeline.logs import logged
from flrml.pipeline.sweeps import summary, sweep_margin

with logged(snakemake.log[0]) as say:
    result = sweep_margin(
        Path(snakemake.input.meta).parent,
        snakemake.input.spectrum,
        snakemake.output[0],
        run=snakemake.params.run,
        ratio=float(snakemake.wildcards.value),
        seeds=range(snakemake.params.repeats),
        minutes=snakemake.params.minutes,
        memory_mb=snakemake.params.memory_mb,
    )
    say(f"{result['dataset']:>14} margin ratio {result['margin_ratio']:<5g}     {summary(result['points'])}")
