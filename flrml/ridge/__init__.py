"""RidgeFLRML: the model of FLRML with ridge whitening, triplets in expectation and a closed form."""

from flrml.ridge.estimator import RidgeFLRML

__all__ = ["RidgeFLRML"]
