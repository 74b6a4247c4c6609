"""Write the embeddings of a trained model for a search index.

``python -m flrml.pipeline.embeddings results/runs/digits/flrml-ridge/seed0 out [float16]`` writes ``out/train`` and
``out/test``, each with ``embeddings.npy`` and ``names.txt``.
"""

import sys
from pathlib import Path

from flrml.datasets.store import open_names
from flrml.embeddings import save_embeddings
from flrml.files import PathLike, read_json
from flrml.pipeline.naming import METRICS, MODEL
from flrml.pipeline.stages.inputs import load_rows
from flrml.pipeline.stages.learned_map import LearnedMap


def write_embeddings(run: PathLike, folder: PathLike, dtype: str = "float32") -> None:
    """Write the embedded training and test rows of an evaluated run, as float32 or float16."""
    missing = next((name for name in (METRICS, MODEL) if not Path(run, name).exists()), None)
    if missing:
        raise FileNotFoundError(f"{run}: no {missing}; name the folder of a run that has ended with outcome ok")
    learned = LearnedMap.load(Path(run, MODEL))
    if learned.metric == "bilinear":
        raise ValueError(f"{run}: a bilinear similarity has no embeddings that an index could compare by cosine")
    for part, described in read_json(Path(run, METRICS))["data"].items():
        embedded, names = learned.embed(load_rows(described["source"])[0]), open_names(described["source"])
        save_embeddings(Path(folder, part), embedded, names, dtype=dtype, unit=learned.metric == "cosine")


if __name__ == "__main__":
    try:
        write_embeddings(*sys.argv[1:])
    except (OSError, TypeError, ValueError) as error:
        sys.exit(str(error))
