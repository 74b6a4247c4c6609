"""FLRML: low-rank metric learning on the SVD of the data, as a scikit-learn estimator."""

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from flrml import stiefel
from flrml.exceptions import OverfittingWarning
from flrml.loss import LossRows, MarginLoss
from flrml.metric import LowRankMetric
from flrml.rows import RowOperator, is_dask
from flrml.rows.threads import one_blas_thread
from flrml.spectrum import Spectrum, decompose
from flrml.triplets import contrast_matrix


@dataclass(eq=False, repr=False)
class FLRML(LowRankMetric):
    """Fast low-rank metric learning (Liu, Han, Liu, Gu, NeurIPS 2019).

    Learns a linear map L (d × D) for which the cosine of L x and L x' measures the similarity of two samples, from
    triplets (i, j, k): i is more similar to j than to k. L is sought among the maps that whiten the data and keep d
    weighted directions; the directions are found by a descent over matrices with orthonormal columns.

    Rows of X should have unit length (:class:`sklearn.preprocessing.Normalizer`); rows of zeros are allowed.

    Parameters
    ----------
    n_components : int, default=100
        Number of directions d; at most the rank of the data.
    margin_ratio : float, default=1.0
        Margin of the hinge as a multiple of the mean squared length of the embeddings.
    n_triplets : int, default=5
        Random triplets per sample, if labels are given.
    init : {"top", "random"}, default="top"
        Start in the d leading singular directions, randomly rotated, or in random ones.
    max_rank : int, default=3000
        Largest rank of the SVD.
    max_iter : int, default=20
        Largest number of iterations.
    tol : float, default=1e-3
        Relative change of the objective below which the descent stops.
    random_state : int, RandomState or None, default=None
        Seed for triplets and start.
    verbose : int, default=0
        Print a line per iteration if positive.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map L.
    weights_ : ndarray of shape (n_components,)
        Weight s of each direction.
    n_iter_ : int
        Number of iterations.
    history_ : ndarray of shape (n_iter + 1,)
        Objective at the start and after every iteration.
    n_start_rounds_ : int
        Number of rounds in which the weights at the start were found.
    n_null_steps_ : int
        Number of iterations in which no step decreased the objective enough.
    spectrum_ : Spectrum
        The SVD, without reference to X; pass it to another fit on the same data to save time.
    n_features_in_ : int
        Number of features D.

    See Also
    --------
    flrml.RidgeFLRML : A more accurate method with the same model.
    flrml.MFLRML : The same method from mini-batches, for data that are too large for an SVD.
    flrml.reference.ReferenceFLRML : The method of the authors' published code.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from flrml import FLRML, knn_accuracy
    >>> X, y = load_digits(return_X_y=True)
    >>> X = normalize(X)
    >>> model = FLRML(n_components=20, random_state=0).fit(X[:1000], y[:1000])
    >>> accuracy = knn_accuracy(model.transform(X[:1000]), y[:1000], model.transform(X[1000:]), y[1000:])
    >>> bool(accuracy > 0.9)
    True
    """

    n_components: int = 100
    _: KW_ONLY
    margin_ratio: float = 1.0
    n_triplets: int = 5
    init: str = "top"
    max_rank: int = 3000
    max_iter: int = 20
    tol: float = 1e-3
    random_state: Any = None
    verbose: int = 0

    loss: ClassVar[type[MarginLoss]] = MarginLoss
    search: ClassVar[Callable[..., stiefel.Minimum]] = staticmethod(stiefel.minimize)
    # Rows of which the SVD is taken: those of X itself, unless a class of operators is named.
    decomposed_rows: ClassVar[type[RowOperator] | None] = None
    smallest_singular_value: ClassVar[float] = 0.0

    takes_dask = True
    _parameter_constraints: ClassVar[dict] = {
        **LowRankMetric._parameter_constraints,
        "init": [StrOptions({"top", "random"})],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        triplets: Any = None,
        spectrum: Spectrum | None = None,
        callback: Callable[["FLRML"], None] | None = None,
    ) -> "FLRML":
        """Learn the map.

        Parameters
        ----------
        X : array-like, CSR matrix, BinaryRows or dask array of shape (n_samples, n_features)
            Training rows. float32 stays float32; a memory map is never copied whole.
        y : array-like of shape (n_samples,)
            Labels, from which triplets are drawn. Not needed with ``triplets``.
        triplets : array-like of shape (n_triplets, 3), optional
            Row numbers (i, j, k).
        spectrum : Spectrum, optional
            The decomposition of X, from :func:`flrml.decompose` or an earlier fit.
        callback : callable, optional
            Called with this estimator at the start of the descent and after every iteration; ``components_`` and
            ``transform`` are ready then.

        Returns
        -------
        FLRML
            This estimator.
        """
        if is_dask(X):
            from flrml.distributed import fit_flrml

            return fit_flrml(self, X, y, triplets, spectrum, callback)
        X = self._check_rows(X, reset=True, ensure_min_samples=3)
        random = check_random_state(self.random_state)
        T = self._check_triplets(X, y, triplets, self.n_triplets, random)
        spectrum = self._check_spectrum(X, spectrum, random)
        contrasts = contrast_matrix(T, X.shape[0], X.dtype)
        self._descend(LossRows(spectrum, contrasts), random, callback)
        self.spectrum_ = spectrum.unbind()
        return self

    def _check_spectrum(self, X: Any, spectrum: Spectrum | None, random: np.random.RandomState) -> Spectrum:
        """Decompose X, or check that the given decomposition is that of X."""
        rows = X if self.decomposed_rows is None else self.decomposed_rows(X)
        if spectrum is None:
            self._log(f"decomposing {X.shape[0]} × {X.shape[1]}")
            return decompose(rows, self.max_rank, smallest=self.smallest_singular_value, random_state=random)
        return spectrum.bind(rows)

    def _descend(
        self, rows: LossRows, random: np.random.RandomState, callback: Callable[["FLRML"], None] | None
    ) -> None:
        """Minimise the loss over directions P, from a start in the span that ``init`` names."""
        warn_if_close(rows.rank, rows.n, type(self).__name__)
        d = self._check_directions(self.n_components, rows.rank, f"the rank {rows.rank} of the data")
        loss = self.loss(rows, self.margin_ratio, random)
        if self.init == "random":
            P = stiefel.random_point(rows.rank, d, random)
            E = rows.image(P)
        else:
            rotation = stiefel.random_point(d, d, random)
            P = np.vstack((rotation, np.zeros((rows.rank - d, d))))
            E = rows.leading_image(rotation)
        loss.start(E)

        def set_map(P: NDArray, values: list[float]) -> None:
            self.weights_ = loss.s
            self._set_result(rows.lift(P * np.sqrt(loss.s)).T, values, len(values) - 1)

        def after_iteration(iteration: int, state: stiefel.Minimum) -> None:
            self._log(
                f"iteration {iteration}/{self.max_iter}: objective {state.values[-1]:.6g}, "
                f"step {state.steps[-1]:.2g}",
                state.values,
            )
            if callback is not None:
                set_map(state.P, state.values)
                callback(self)

        if callback is not None:
            set_map(P, [loss.value(E)])
            callback(self)
        with one_blas_thread():
            found = self.search(loss, P, E=E, max_iter=self.max_iter, tol=self.tol, callback=after_iteration)
        set_map(found.P, found.values)
        self.n_start_rounds_, self.n_null_steps_ = loss.n_start_rounds, found.null_steps


def warn_if_close(rank: int, n: int, name: str) -> None:
    """Warn if the rank is so close to the number of rows that whitening overfits."""
    if rank > 0.5 * n:
        warnings.warn(
            f"the rank {rank} of X is close to its {n} rows, so that whitening by {name} overfits; use RidgeFLRML",
            OverfittingWarning,
            stacklevel=5,
        )
