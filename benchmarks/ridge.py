"""RidgeFLRML end to end, selection included: against an SVD of rank 3000, against LinearSVC, and by size.

Data sets that are not in the folder FLRML_PREPARED are prepared first; made-up word counts stand in if none can be.
"""

import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from benchmarks.prepared import prepared
from benchmarks.timing import exponent, seconds, side_by_side
from flrml import RidgeFLRML, decompose
from flrml.pipeline.stages.inputs import load_rows

TEXT = ("newsgroups", "ng20", "tdt2", "r52", "r8")
MAX_RANK = 3000
SIZES = (1, 2, 4, 8)
CLASSES = (10, 100, 1000, 20_000)


def documents(
    n: int, n_words: int, n_classes: int, length: int = 80, seed: int = 0
) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return word counts of unit rows and their classes; half of the words of a row come from its class."""
    random = np.random.RandomState(seed)
    y = np.arange(n) % n_classes
    common = (n_words * random.power(0.3, (n, length))).astype(np.int64)
    topic = (97 * y[:, None] + (n_words // 20 * random.power(0.3, (n, length))).astype(np.int64)) % n_words
    words = np.where(random.rand(n, length) < 0.5, common, topic)
    counts = sp.csr_matrix(
        (np.ones(words.size, np.float32), words.ravel(), np.arange(0, words.size + 1, length)), (n, n_words)
    )
    counts.sum_duplicates()
    return normalize(counts), y


def vectors(n: int, n_columns: int, n_classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return dense unit rows around the means of their classes, and the classes."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    means = random.standard_normal((n_classes, n_columns), dtype=np.float32)
    return normalize(random.standard_normal((n, n_columns), dtype=np.float32) + 0.5 * means[y]), y


def seconds_and_peak(work: Callable[[], object]) -> tuple[float, float]:
    """Return the time of some work, and the largest memory that NumPy and SciPy hold at once in MB."""
    tracemalloc.start()
    time = seconds(work)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return time, found / 2**20


def texts() -> Iterator[tuple[str, sp.csr_matrix, np.ndarray]]:
    """Yield name, training rows and labels of the text data sets, or of made-up documents."""
    found = False
    for name in TEXT:
        with prepared(name) as folder:
            if folder is not None:
                found = True
                yield name, *load_rows(folder / "train")
    if not found:
        yield "made-up documents, 6,000 × 20,000", *documents(6000, 20_000, 20)


def growth(
    name: str, make: Callable[[int], tuple[sp.csr_matrix | np.ndarray, np.ndarray]], sizes: tuple[int, ...] = SIZES
) -> tuple[str, str, str]:
    """Return the exponent of the time of a fit in one size, of the smallest of two times each."""
    data = [make(size) for size in sizes]
    times = [min(seconds(lambda X=X, y=y: RidgeFLRML(random_state=0).fit(X, y)) for _ in range(2)) for X, y in data]
    return (
        f"RidgeFLRML, growth in {name} ×{sizes[-1] // sizes[0]:,}",
        "–",
        f"time grows with the power {exponent(list(sizes), times):.2f}",
    )


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield the rows of the table."""
    for name, X, y in texts():

        def fit(X=X, y=y) -> RidgeFLRML:
            return RidgeFLRML(random_state=0).fit(X, y)

        def svd(X=X) -> object:
            return decompose(X, MAX_RANK, random_state=0)

        chosen = fit()
        given = {
            "ridge": chosen.ridge_,
            "within": chosen.within_,
            "local": chosen.local_,
            "scale": chosen.scale_,
            "rounds": chosen.n_rounds_,
        }
        ours, svc = side_by_side(fit, lambda X=X, y=y: LinearSVC().fit(X, y))
        alone = min(
            seconds(lambda X=X, y=y, given=given: RidgeFLRML(**given, random_state=0).fit(X, y)) for _ in range(3)
        )
        svd_time, svd_peak = seconds_and_peak(svd)  # once: it takes minutes
        what = f"RidgeFLRML on {name}, end to end"
        faster = f"{svd_time / ours:.0f}× faster, {seconds_and_peak(fit)[1] / svd_peak:.2f}× its memory"
        yield what, f"SVD of rank {MAX_RANK} alone", faster
        yield what, "LinearSVC", f"{ours / svc:.1f}× its time"
        yield what, "a fit with the chosen parameters given", f"{ours / alone:.1f}× its time"
    yield growth("rows", lambda factor: documents(3000 * factor, 30_000, 10))
    yield growth("features", lambda factor: documents(6000, 10_000 * factor, 10))
    yield growth("classes", lambda factor: documents(6000, 30_000, 10 * factor))
    yield growth("classes of dense rows", lambda n_classes: vectors(100_000, 256, n_classes), CLASSES)
    X, y = vectors(100_000, 256, CLASSES[-1])
    peak = seconds_and_peak(lambda: RidgeFLRML(random_state=0).fit(X, y))[1] * 2**20
    yield f"RidgeFLRML, {CLASSES[-1]:,} classes, memory", "X", f"{peak / X.nbytes:.1f}× its size next to it"
