"""Data sets: registered sources, the user's own files, and the prepared store on disk."""

from flrml.datasets.encoders import load_encoder
from flrml.datasets.encoders.pretrained import embed_wordllama
from flrml.datasets.preparation import paper_table, prepare
from flrml.datasets.registry import REGISTRY, Dataset, raw_files
from flrml.datasets.store import load_meta, open_groups, open_names, open_split

__all__ = [
    "REGISTRY",
    "Dataset",
    "embed_wordllama",
    "load_encoder",
    "load_meta",
    "open_groups",
    "open_names",
    "open_split",
    "paper_table",
    "prepare",
    "raw_files",
]
