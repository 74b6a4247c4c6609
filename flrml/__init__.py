"""Fast low-rank metric learning for large-scale and high-dimensional data."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flrml.flrml import FLRML
    from flrml.mflrml import MFLRML
    from flrml.neighbors import knn_accuracy
    from flrml.retrieval import retrieval_scores
    from flrml.ridge import RidgeFLRML
    from flrml.rows import BinaryRows
    from flrml.spectrum import Spectrum, decompose
    from flrml.triplets import draw_triplets

__version__ = "0.1.0"
__all__ = [
    "FLRML",
    "MFLRML",
    "BinaryRows",
    "RidgeFLRML",
    "Spectrum",
    "decompose",
    "draw_triplets",
    "knn_accuracy",
    "retrieval_scores",
]
_MODULES = {
    "FLRML": "flrml",
    "MFLRML": "mflrml",
    "BinaryRows": "rows",
    "RidgeFLRML": "ridge",
    "Spectrum": "spectrum",
    "decompose": "spectrum",
    "draw_triplets": "triplets",
    "knn_accuracy": "neighbors",
    "retrieval_scores": "retrieval",
}


def __getattr__(name: str) -> Any:
    """Import a name of the package when it is first used: jobs that draw a figure need none of them."""
    if name not in _MODULES:
        raise AttributeError(f"module 'flrml' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"flrml.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
