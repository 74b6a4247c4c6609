import numpy as np
import pytest
import pytrec_eval
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import normalize

from flrml import BinaryRows, neighbors, retrieval_scores

SIMILARITY = {
    "cosine": lambda E, gallery: normalize(E) @ normalize(gallery).T,
    "euclidean": lambda E, gallery: -((E[:, None] - gallery[None]) ** 2).sum(axis=2),
    "bilinear": lambda E, gallery: E @ gallery.T,
}


def example(n, seed, n_classes=4):
    random = np.random.RandomState(seed)
    y = random.permutation(np.arange(n) % n_classes)
    return random.standard_normal((n, 6)) + y[:, None] * 0.3, y


def literal(similarity, y, y_gallery, excluded, ks):
    """The scores of each query, one query and one place at a time."""
    found = {}
    for query, of_query in enumerate(similarity):
        order = [row for row in np.argsort(-of_query, kind="stable") if not excluded[query, row]]
        hits = [y_gallery[row] == y[query] for row in order]
        R = sum(hits)
        scores = {f"recall_at_{k}": any(hits[:k]) for k in ks}
        scores |= {f"precision_at_{k}": sum(hits[:k]) / k for k in ks}
        scores["r_precision"] = sum(hits[:R]) / R
        scores["map_at_r"] = sum(sum(hits[: i + 1]) / (i + 1) for i in range(R) if hits[i]) / R
        for name, value in scores.items():
            found.setdefault(name, []).append(value)
    return found


def assert_equal(scores, expected):
    assert scores.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(scores[name], values, err_msg=name)


@pytest.mark.parametrize("metric", SIMILARITY)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("block", [7, 2**24], ids=["many blocks", "one block"])
@pytest.mark.parametrize("threads", [1, 3])
def test_scores_among_the_rows_equal_the_literal_ones(metric, form, block, threads, monkeypatch):
    monkeypatch.setattr(neighbors, "BLOCK_SIMILARITIES", block)
    monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
    E, y = example(60, 0, n_classes=9)
    expected = literal(SIMILARITY[metric](E, E), y, y, np.eye(60, dtype=bool), (1, 3, 20))
    assert_equal(retrieval_scores(form(E), y, k=[1, 3, 20], metric=metric, average=False), expected)
    means = {name: np.mean(values) for name, values in expected.items()}
    assert_equal(retrieval_scores(form(E), y, k=[1, 3, 20], metric=metric), means)


@settings(deadline=None)
@given(
    seed=st.integers(0, 99),
    n_gallery=st.integers(20, 150),
    k=st.integers(1, 10),
    digits=st.sampled_from([0, 1, 9]),
    with_groups=st.booleans(),
)
def test_scores_in_a_gallery_equal_the_literal_ones_with_ties_and_groups(seed, n_gallery, k, digits, with_groups):
    (gallery, y_gallery), (E, y) = example(n_gallery, seed), example(15, seed + 1)
    gallery, E = (np.round(rows, digits) for rows in (gallery, E))
    random = np.random.RandomState(seed)
    groups = gallery_groups = None
    excluded = np.zeros((15, n_gallery), dtype=bool)
    if with_groups:
        groups, gallery_groups = random.randint(0, 12, 15), random.randint(0, 9, n_gallery)
        excluded = groups[:, None] == gallery_groups
    relevant = ((y[:, None] == y_gallery) & ~excluded).sum(axis=1)
    # Sums of whole numbers are exact, so that equal similarities are equal whatever the order of the products.
    scores = {"k": k, "groups": groups, "gallery_groups": gallery_groups, "metric": "bilinear", "average": False}
    if not relevant.all():
        with pytest.raises(ValueError, match="finds no row of its class"):
            retrieval_scores(E, y, gallery, y_gallery, **scores)
    elif (n_gallery - excluded.sum(axis=1)).min() >= k:
        E, gallery = (rows if digits == 9 else np.round(rows * 10**digits) for rows in (E, gallery))
        expected = literal(E @ gallery.T, y, y_gallery, excluded, (k,))
        assert_equal(retrieval_scores(E, y, gallery, y_gallery, **scores), expected)


def test_scores_equal_those_of_trec_eval():
    (gallery, y_gallery), (E, y) = example(300, 0), example(40, 1)
    similarity = SIMILARITY["cosine"](E, gallery)
    relevant = {str(q): {str(row): int(y[q] == y_gallery[row]) for row in range(300)} for q in range(40)}
    run = {str(q): {str(row): float(similarity[q, row]) for row in range(300)} for q in range(40)}
    sizes = sorted(set(np.bincount(y_gallery).tolist()))
    measures = {"success_1,10", "P_1,10", "Rprec", f"map_cut_{','.join(map(str, sizes))}"}
    found = pytrec_eval.RelevanceEvaluator(relevant, measures).evaluate(run)
    expected = {
        name: [found[str(q)][measure] for q in range(40)]
        for name, measure in {
            "recall_at_1": "success_1",
            "recall_at_10": "success_10",
            "precision_at_1": "P_1",
            "precision_at_10": "P_10",
            "r_precision": "Rprec",
        }.items()
    }
    R = np.bincount(y_gallery)[y]
    expected["map_at_r"] = [found[str(q)][f"map_cut_{R[q]}"] for q in range(40)]
    assert_equal(retrieval_scores(E, y, gallery, y_gallery, average=False), expected)


def test_a_class_alone_in_its_corner_is_found_whole():
    y = np.repeat([0, 1, 2], 5)
    scores = retrieval_scores(np.eye(3)[y] + 0.01 * np.random.RandomState(0).random_sample((15, 3)), y, k=4)
    assert set(scores.values()) == {1.0}


def test_no_query_finds_rows_of_its_group():
    E, y = example(40, 0)
    groups = np.arange(40) // 8
    expected = literal(SIMILARITY["cosine"](E, E), y, y, groups[:, None] == groups, (1, 10))
    assert_equal(retrieval_scores(E, y, groups=groups, average=False), expected)
    # Queries may be some of the rows of a gallery, in groups of one row.
    some = np.arange(0, 40, 3)
    scores = retrieval_scores(E[some], y[some], E, y, groups=some, gallery_groups=np.arange(40), average=False)
    whole = retrieval_scores(E, y, average=False)
    assert_equal(scores, {name: values[some] for name, values in whole.items()})


def test_rows_of_zeros_and_ones_and_strings_as_labels():
    ones = sp.csr_matrix((np.random.RandomState(0).random_sample((50, 30)) < 0.4).astype(float))
    y = np.array(["a", "b"])[np.arange(50) % 2]
    binary = BinaryRows(ones.indptr, ones.indices, 30, np.float64)
    W = np.random.RandomState(1).standard_normal((30, 30))
    for more in ({"metric": "cosine"}, {"metric": "bilinear", "W": W}):
        rows = normalize(ones.toarray())
        assert_equal(retrieval_scores(rows, y, **more), retrieval_scores(sp.csr_matrix(rows), y, **more))
    similarity = (binary[:] @ binary[:].T).toarray()
    expected = literal(similarity, y, y, np.eye(50, dtype=bool), (1, 10))
    assert_equal(retrieval_scores(binary, y, average=False), expected)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_scores_do_not_depend_on_the_scale_of_the_rows(scale):
    E, y = example(30, 0)
    for metric in SIMILARITY:
        assert_equal(retrieval_scores(E * scale, y, metric=metric), retrieval_scores(E, y, metric=metric))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.r_[np.zeros(19), 7]}, r"row 19 finds no row of its class 7.0 of another row or group; leave out"),
        ({"groups": np.arange(20) % 2}, r"row 0 finds no row of its class 0 of another row or group"),
        (
            {"gallery": np.eye(6)[:2], "y_gallery": [1, 1], "k": 1},
            "row 0 finds no row of its class 0 in the gallery",
        ),
        ({"k": 20}, "k = 20 is larger than the gallery of 19 rows; choose a smaller k"),
        ({"k": [3, 0]}, "k must be a positive integer"),
        ({"k": 1.5}, "k must be a positive integer"),
        ({"k": []}, "k must be a positive integer"),
        ({"gallery": np.eye(6)}, "y_gallery is missing; give the labels of gallery"),
        ({"gallery": np.eye(4), "y_gallery": [0, 1, 0, 1]}, "gallery has 4 columns, but E has 6"),
        ({"gallery": np.eye(6), "y_gallery": np.arange(6) % 2, "groups": range(20), "k": 1}, "given together"),
        ({"metric": "dot"}, "metric must be one of"),
        ({"y": [0, 1]}, "inconsistent numbers of samples"),
        ({"E": np.full((20, 6), np.nan)}, "NaN"),
    ],
)
def test_bad_input_is_refused_in_one_line(change, message):
    given = {"E": np.random.RandomState(0).standard_normal((20, 6)), "y": np.arange(20) % 2} | change
    with pytest.raises(ValueError, match=message):
        retrieval_scores(given.pop("E"), given.pop("y"), **given)


def test_dask_arrays_are_refused():
    array = pytest.importorskip("dask.array").ones((4, 2))
    with pytest.raises(ValueError, match=r"E is a dask array; pass E\.compute"):
        retrieval_scores(array, [0, 0, 1, 1])
