"""Write the embeddings of a trained model for a search index."""

from pathlib import Path

from flrml.datasets.store import open_names
from flrml.embeddings import save_embeddings
from flrml.files import PathLike, read_json
from flrml.pipeline.naming import METRICS, MODEL
from flrml.pipeline.stages.inputs import load_rows
from flrml.pipeline.stages.learned_map import LearnedMap


def write_embeddings(run: PathLike, folder: PathLike, dtype: str = "float32") -> None:
    """Write the embedded rows of an evaluated run, as float32 or float16, to ``train`` and ``test`` in a folder."""
    missing = next((name for name in (METRICS, MODEL) if not Path(run, name).exists()), None)
    if missing:
        raise FileNotFoundError(f"{run}: no {missing}; name the folder of a run that has ended with outcome ok")
    learned = LearnedMap.load(Path(run, MODEL))
    if learned.metric == "bilinear":
        raise ValueError(f"{run}: a bilinear similarity has no embeddings that an index could compare by cosine")
    for part, described in read_json(Path(run, METRICS))["data"].items():
        embedded, names = learned.embed(load_rows(described["source"])[0]), open_names(described["source"])
        save_embeddings(Path(folder, part), embedded, names, dtype=dtype, unit=learned.metric == "cosine")
