"""scikit-learn's own checks, on every baseline that can learn from the noise they use."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from flrml.flrml import FLRML
from flrml.methods import METHODS, build
from flrml.mflrml import MFLRML

SMALL = {"n_components": 2, "max_iter": 3, "n_steps": 3, "random_state": 0}
# SCML rightly ends without a solution where labels are random.
CHECKED = [name for name, method in METHODS.items() if method.estimator not in (FLRML, MFLRML) and name != "scml"]


def small(name):
    return build(name, **{key: value for key, value in SMALL.items() if key in METHODS[name].accepts})


@parametrize_with_checks([small(name) for name in CHECKED])
@pytest.mark.filterwarnings(
    "ignore::flrml.exceptions.FlrmlWarning", "ignore::sklearn.exceptions.ConvergenceWarning"
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
