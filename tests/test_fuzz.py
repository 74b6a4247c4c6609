"""Feed odd input to every estimator, to decompose and to knn_accuracy.

A case ends with a finite result, or with a ValueError or TypeError that has a message; anything else is a failure.
FLRML_FUZZ_CASES says how many cases are tried (`make fuzz`: 24,000).
"""

import os
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from flrml import BinaryRows, decompose, knn_accuracy
from flrml.methods import METHODS, build

CASES = int(os.environ.get("FLRML_FUZZ_CASES", 600))
PARTS = 12
SHORT = {"max_iter": 2, "n_steps": 15, "n_bases": 8, "n_batches": 2, "check_every": 5, "max_rank": 20}
SCALES = (*[1.0] * 20, 1e155, 1e-20, 1e30, 1e-160, 1e7, 1e-5)


def values(random):
    """A small matrix with something odd about it."""
    n, n_features = random.choice([0, 2, *range(4, 30)]), random.randint(1, 18)
    X = random.standard_normal((n, n_features)) * (random.random_sample((n, n_features)) < random.choice([0.2, 1]))
    kind = random.randint(16)
    if kind == 0:
        X[:] = 0
    elif kind == 1 and n:
        X[:] = X[0]
    elif kind == 2:
        X[:] = random.standard_normal((1, n_features))
    elif kind == 3 and n:
        X[random.randint(n)] = 0
    elif kind == 4 and X.size:
        X.flat[random.randint(X.size)] = random.choice([np.nan, np.inf, -np.inf])
    elif kind == 5:
        X = np.outer(random.standard_normal(n), random.standard_normal(n_features))
    elif kind == 6:
        X = X * 10.0 ** -np.arange(n_features)
    elif kind == 7:
        X = np.vstack((X, X))
    return X * random.choice(SCALES)


def rows(random):
    """The matrix in some form: array, sparse, list, data frame, another type or number of dimensions."""
    X = values(random)
    with np.errstate(all="ignore"):
        X = X.astype(random.choice([np.float64, np.float64, np.float32]))
        form = random.randint(14) if random.randint(3) else 0
        if form < 5:
            return X
        if form < 9:
            return random.choice([sp.csr_matrix, sp.csc_matrix, sp.coo_matrix])(
                np.nan_to_num(X) if form == 8 else X
            )
        if form == 9:
            ones = sp.csr_matrix(np.nan_to_num(X) > 0)
            return BinaryRows(ones.indptr, ones.indices, X.shape[1])
        if form == 10:
            return X.tolist()
        if form == 11:
            return pd.DataFrame(X)
        if form == 12:
            return np.nan_to_num(X).clip(-1e9, 1e9).astype(random.choice([int, bool, object]))
        return random.choice([0, 1]) and X[:, 0] if X.shape[1] else X[None]


def labels(random, n):
    """Labels that are odd, or of the wrong number or kind."""
    n = max(n + random.choice([*[0] * 20, 1, -1]), 0)
    y = random.randint(0, random.choice([1, *[2, 3] * 4, 40]), n)
    kind = random.randint(25)
    if kind == 0:
        return np.array([f"class {label}" for label in y])
    if kind == 1:
        return y.tolist()
    if kind == 2:
        return y + random.choice([0.0, 0.5])
    if kind == 3:
        return y[:, None]
    if kind == 4:
        return None
    if kind == 5:
        return np.where(y > 0, np.nan, 1.0)
    return y


def length(X):
    return X.shape[0] if hasattr(X, "shape") and X.shape else len(X)


def triplets(random, n):
    if random.randint(10):
        return None
    T = random.randint(-1, n + 1, (random.randint(0, 12), random.choice([2, 3, 3, 3])))
    return T.tolist() if random.randint(2) else T * random.choice([1, 1.5])


def fit_case(random):
    name = random.choice(list(METHODS))
    method, X = METHODS[name], rows(random)
    given = {key: value for key, value in SHORT.items() if key in method.accepts}
    given["n_components"] = int(random.choice([1, 2, 5, 100]))
    if not random.randint(20):
        given[random.choice(list(method.accepts))] = random.choice([-1, 0, "auto", None])
    given = {key: value for key, value in given.items() if key in method.accepts}
    groups = random.randint(0, 4, length(X) + (not random.randint(5))) if not random.randint(4) else None
    arguments = method.fit_arguments(triplets=triplets(random, length(X)), groups=groups)
    arguments = {key: value for key, value in arguments.items() if value is not None}
    model = build(name, **given).fit(X, labels(random, length(X)), **arguments)
    embedded = model.transform(X)
    embedded = embedded[:] if isinstance(embedded, BinaryRows) else embedded
    return [embedded.data if sp.issparse(embedded) else np.asarray(embedded), model.history_]


def decompose_case(random):
    spectrum = decompose(rows(random), int(random.choice([1, 5, 100])), random_state=0)
    return [spectrum.singular_values, spectrum.basis]


def neighbors_case(random):
    train, test = rows(random), rows(random)
    metric = random.choice(["cosine", "euclidean", "bilinear"])
    y, y_test = labels(random, length(train)), labels(random, length(test))
    return [knn_accuracy(train, y, test, y_test, metric=metric, n_neighbors=int(random.choice([1, 5, 50])))]


def outcome(number):
    """Run one case; return "finite" or "refused", or what is wrong."""
    random = np.random.RandomState(number)
    case = (fit_case, fit_case, fit_case, decompose_case, neighbors_case)[random.randint(5)]
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        try:
            found = case(random)
        except Exception as error:
            clear = isinstance(error, ValueError | TypeError) and not isinstance(error, np.linalg.LinAlgError)
            return "refused" if clear and str(error) else f"{type(error).__name__}: {error}"
    finite = all(np.isfinite(np.asarray(part, dtype=float)).all() for part in found)
    return "finite" if finite else "a result that is not finite"


@pytest.mark.parametrize("part", range(PARTS))
def test_odd_input_gives_a_finite_result_or_a_clear_error(part):
    outcomes = {number: outcome(number) for number in range(part, CASES, PARTS)}
    print(Counter(outcomes.values()))
    assert set(outcomes.values()) == {"finite", "refused"}, {
        number: found for number, found in outcomes.items() if found not in ("finite", "refused")
    }
