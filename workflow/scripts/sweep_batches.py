from pathlib import Path

import numpy as np

from flrml.lab.logs import logged
from flrml.lab.sweeps import sweep_batches

with logged(snakemake.log[0]) as say:
    result = sweep_batches(
        Path(snakemake.input.meta).parent,
        snakemake.output[0],
        run=snakemake.params.run,
        batch_triplets=int(snakemake.wildcards.value),
        seeds=range(snakemake.params.repeats),
    )
    accuracy = 100 * np.mean([point["accuracy"] for point in result["points"]])
    say(f"{result['dataset']:>14} N_t = {result['batch_triplets']:<5}            mean accuracy {accuracy:5.1f} %")
