"""Fit one method to prepared rows: what training, sweeps and growth have in common."""

import time
from typing import Any

from flrml.methods import METHODS, build


def timed_fit(method: str, parameters: dict[str, Any], X: Any, y: Any, **given: Any) -> tuple[Any, float]:
    """Build the estimator of a method and fit it; return it with the seconds that the fit took.

    Parameters that the method does not have are left out. ``given`` may hold ``triplets``, ``spectrum`` and
    ``groups``, passed on if ``fit`` takes them; ``callback``; and ``listener``, called with the number and the
    objective of every iteration.
    """
    known = METHODS[method]
    estimator = build(method, **{name: value for name, value in parameters.items() if name in known.accepts})
    estimator._listener = given.pop("listener", None)
    callback = {"callback": given.pop("callback")} if "callback" in given else {}
    arguments = known.fit_arguments(**given) | callback
    if "groups" in arguments:  # it holds rows out, with a part of scikit-learn whose import is no training
        import sklearn.model_selection  # noqa: F401
    start = time.perf_counter()
    estimator.fit(X, y, **arguments)
    return estimator, time.perf_counter() - start
