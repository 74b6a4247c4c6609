"""RidgeFLRML: the model of FLRML with ridge whitening, triplets in expectation and a closed form."""

from flrml.ridge.estimator import RidgeFLRML
from flrml.ridge.policy import SearchPolicy

__all__ = ["RidgeFLRML", "SearchPolicy"]
