from pathlib import Path

import numpy as np

from flrml.lab.logs import logged
from flrml.lab.sweeps import sweep_margin

with logged(snakemake.log[0]) as say:
    result = sweep_margin(
        Path(snakemake.input.meta).parent,
        snakemake.input.spectrum,
        snakemake.output[0],
        run=snakemake.params.run,
        ratio=float(snakemake.wildcards.value),
        seeds=range(snakemake.params.repeats),
    )
    accuracy = 100 * np.mean([point["accuracy"] for point in result["points"]])
    say(f"{result['dataset']:>14} margin ratio {result['margin_ratio']:<5g}     mean accuracy {accuracy:5.1f} %")
