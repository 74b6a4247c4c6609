"""Fast low-rank metric learning for large-scale and high-dimensional data."""

from flrml.estimators import FLRML
from flrml.minibatch import MFLRML
from flrml.neighbors import knn_accuracy
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
]
