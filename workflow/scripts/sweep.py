from pathlib import Path

import flrml.pipeline.light_sklearn  # noqa: F401
from flrml.pipeline.logs import logged
from flrml.pipeline.stages.sweep import SWEEPS, run_sweep_point, summary

with logged(snakemake.log[0]) as say:
    sweep = snakemake.wildcards.sweep
    result = run_sweep_point(
        Path(snakemake.input.meta).parent,
        snakemake.input.get("spectrum") or None,
        snakemake.output[0],
        run=snakemake.params.run,
        sweep=sweep,
        value=SWEEPS[sweep].parse(snakemake.wildcards.value),
        seeds=range(snakemake.params.repeats),
        minutes=snakemake.params.minutes,
        memory_mb=snakemake.params.memory_mb,
    )
    say(summary(result))
