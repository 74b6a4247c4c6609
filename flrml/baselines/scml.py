"""SCML: a sparse combination of discriminative directions."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.cluster import MiniBatchKMeans
from sklearn.utils import check_random_state

from flrml.baselines.common import Baseline, Reduced, temporary_blocks
from flrml.metric import NONNEGATIVE_REAL, POSITIVE_INTEGER, POSITIVE_REAL, UNIT_INTERVAL, require_solution
from flrml.rows import product, row_blocks, row_products
from flrml.spectrum import decompose

KMEANS_ROWS = 20_000  # k-means uses a random sample of more rows


@dataclass(eq=False, repr=False)
class SCML(Baseline):
    """Sparse compositional metric learning, global form (Shi, Bellet & Sha, AAAI 2014).

    M = Σ_b w_b b bᵀ over K fixed unit directions b with weights w ≥ 0 that minimise the mean hinge
    [1 + d_M(i, j) − d_M(i, k)]₊ over triplets plus β Σ w, by dual averaging over single triplets; the best w seen
    is kept. The directions are those of linear discriminant analyses in the neighbourhoods of k-means centres.
    They are computed on X itself, sparse or not, in the span of each neighbourhood's rows.

    Optimiser, bases and their constants follow the code that the authors published, except that X is not
    standardised, which would make it dense, that k-means sees at most 20,000 rows, and that the covariances
    within classes are shrunk (``shrinkage``, ours), for neighbourhoods have fewer rows than features. β and γ are
    theirs. The cut to ``n_components`` directions, those in which the embedded training data are longest, is ours
    too.

    Parameters
    ----------
    n_components : int, default=100
        Largest rank of the map.
    n_bases : int, default=400
        Number K of directions.
    beta : float, default=1e-5
        Weight β of Σ w.
    gamma : float, default=5e-3
        γ of the dual averaging; w grows with 1/γ.
    n_steps : int, default=100000
        Triplets that are visited, at random.
    check_every : int, default=5000
        Steps after which the objective over all triplets is computed.
    shrinkage : float, default=0.1
        Share of the mean variance in the covariance within classes.
    n_triplets, random_state, verbose
        As for :class:`flrml.FLRML`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map L.
    weights_ : ndarray of shape (K,)
        Weights w of the directions.
    history_ : ndarray
        Objective at w = 0 and at every check.
    """

    n_components: int = 100
    _: KW_ONLY
    n_bases: int = 400
    beta: float = 1e-5
    gamma: float = 5e-3
    n_steps: int = 100_000
    check_every: int = 5000
    shrinkage: float = 0.1
    n_triplets: int = 5
    random_state: Any = None
    verbose: int = 0

    _parameter_constraints: ClassVar[dict] = {
        **Baseline._parameter_constraints,
        "n_bases": [POSITIVE_INTEGER],
        "beta": [NONNEGATIVE_REAL],
        "gamma": [POSITIVE_REAL],
        "check_every": [POSITIVE_INTEGER],
        "shrinkage": [UNIT_INTERVAL],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, triplets: Any = None) -> "SCML":
        """Learn the weights from triplets, drawn from the labels unless given; the directions always need labels.

        See :meth:`flrml.MFLRML.fit` for the arguments.
        """
        X = self._check_rows(X, reset=True, ensure_min_samples=3)
        random = check_random_state(self.random_state)
        label = self._check_classes(X, y)
        T = self._check_triplets(X, label, triplets, self.n_triplets, random)
        B = local_bases(X, label, self.n_bases, self.shrinkage, random)
        XB = product(X, B.T)
        self.weights_, history = dual_averaging(
            XB, T, self.beta, self.gamma, self.n_steps, self.check_every, random, self._log
        )
        active = self.weights_ > 0
        root = np.sqrt(self.weights_[active]).astype(B.dtype)
        Y = XB[:, active] * root
        Q = scipy.linalg.eigh(Y.T @ Y)[1][:, ::-1][:, : self.n_components]
        self._set_result((Q * root[:, None]).T @ B[active], history, self.n_steps)
        return self


def dual_averaging(
    XB: NDArray,
    T: NDArray,
    beta: float,
    gamma: float,
    n_steps: int,
    check_every: int,
    random: np.random.RandomState,
    report: Any = lambda message: None,
) -> tuple[NDArray, list[float]]:
    """Return the best weights w seen at the checks, and the objective at w = 0 and at every check."""
    K = XB.shape[1]
    w, best_w, summed = np.zeros(K), np.zeros(K), np.zeros(K)
    history = [1.0]
    best = np.inf
    visits = T[random.randint(len(T), size=n_steps)]
    for t in range(1, n_steps + 1):
        i, j, k = visits[t - 1]
        near, far = XB[i] - XB[j], XB[i] - XB[k]
        dd = near * near - far * far
        if 1 + dd @ w > 0:
            summed += dd
        w = np.maximum(-(summed / t + beta), 0)
        w *= np.sqrt(t) / gamma
        if t % check_every == 0 or t == n_steps:
            history.append(objective(XB, T, w, beta))
            report(f"step {t}/{n_steps}: objective {history[-1]:.6g}, {np.sum(w > 0)} bases")
            if history[-1] < best:
                best, best_w = history[-1], w.copy()
    require_solution("SCML", best_w)
    return best_w, history


def objective(XB: NDArray, T: NDArray, w: NDArray, beta: float) -> float:
    """Return the mean hinge over all triplets plus β Σ w."""
    total = 0.0
    Y = XB * np.sqrt(w)
    for block in temporary_blocks(len(T), Y.shape[1]):
        i, j, k = T[block].T
        near, far = Y[i] - Y[j], Y[i] - Y[k]
        margins = np.einsum("ij,ij->i", near, near) - np.einsum("ij,ij->i", far, far)
        total += float(np.maximum(1 + margins, 0).sum())
    return total / len(T) + beta * float(w.sum())


def local_bases(X: Any, label: NDArray, n_bases: int, shrinkage: float, random: np.random.RandomState) -> NDArray:
    """Return unit directions (K × D) of discriminant analyses around the centres of k-means."""
    n, n_features = X.shape
    per_centre = min(int(label.max()), n_features)
    n_centres = min(-(-n_bases // (2 * per_centre)), n)
    rows = np.sort(random.choice(n, KMEANS_ROWS, replace=False)) if n > KMEANS_ROWS else slice(None)
    kmeans = MiniBatchKMeans(n_centres, n_init=3, batch_size=2048, random_state=random).fit(X[rows])
    centres = kmeans.cluster_centers_.astype(X.dtype)
    # Squared distance up to the length of the centre, which all samples share.
    squares = [row_products(rows, rows) for rows in (X[block] for block in row_blocks(X))]
    distance = np.concatenate(squares).astype(X.dtype)[:, None] - 2 * product(X, centres.T)
    found = []
    for size in (50, 20):  # samples per class around a centre, in the first and the second round of bases
        for centre in range(n_centres):
            around = _nearest_per_class(distance[:, centre], label, size)
            found.append(discriminants(X[around], label[around], per_centre, shrinkage))
    return np.concatenate(found)[:n_bases]


def discriminants(X: Any, label: NDArray, most: int, shrinkage: float) -> NDArray:
    """Return unit directions that separate classes, computed in the span of the rows."""
    reduced = Reduced.of(decompose(X), X.shape[0])
    Z = reduced.Z.astype(np.float64)
    classes, label = np.unique(label, return_inverse=True)
    means = np.stack([Z[label == c].mean(axis=0) for c in range(len(classes))])
    within = Z - means[label]
    between = means[label] - Z.mean(axis=0)
    S = within.T @ within
    scale = np.trace(S) / len(S) or 1.0
    S = (1 - shrinkage) * S + (shrinkage + 1e-9) * scale * np.eye(len(S))
    size = min(most, len(classes) - 1, reduced.rank)
    v = scipy.linalg.eigh(between.T @ between, S, subset_by_index=(len(S) - size, len(S) - 1))[1]
    v = (v / np.linalg.norm(v, axis=0))[:, ::-1]
    return reduced.lift(v.T.astype(X.dtype))


def _nearest_per_class(distance: NDArray, label: NDArray, size: int) -> NDArray:
    order = np.argsort(distance, kind="stable")
    order = order[np.argsort(label[order], kind="stable")]
    count = np.bincount(label[order])
    place = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
    return np.sort(order[place < size])
