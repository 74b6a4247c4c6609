import numpy as np
import pytest

from flrml import knn_accuracy, retrieval_scores
from flrml.datasets import prepare
from flrml.methods import build
from flrml.neighbors import majority_vote
from flrml.pipeline.stages.scores import PreparedRows

POSES = {"models": [4, 2], "poses": 3}


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    """Shapes in three poses each, half of the classes new."""
    folder = tmp_path_factory.mktemp("data") / "shapes"
    prepare("shapes10-16", folder, options={**POSES, "split": "classes-1"})
    return PreparedRows.load(folder, 5)


def literal_votes(X, y, groups, k):
    """The vote of the k nearest rows of other groups, one row at a time."""
    X = X[:].toarray()
    cosines = X @ X.T / np.linalg.norm(X, axis=1)
    found = []
    for row in range(len(y)):
        others = [other for other in np.argsort(-cosines[row], kind="stable") if groups[other] != groups[row]]
        found.append(majority_vote(y[[others[:k]]], None)[0])
    return np.array(found)


def test_rows_of_new_classes_find_one_another_but_not_their_own_group(shapes):
    assert shapes.new_classes
    assert len(set(shapes.test_groups)) < len(shapes.y_test)
    votes = literal_votes(shapes.X_test, shapes.y_test, shapes.test_groups, 5)
    assert shapes.accuracy() == np.mean(votes == shapes.y_test)
    labels, _ = shapes.neighbours()
    assert np.array_equal(majority_vote(labels, None), votes)
    expected = retrieval_scores(shapes.X_test, shapes.y_test, groups=shapes.test_groups)
    assert shapes.retrieval() == expected


def test_as_many_neighbours_vote_as_there_are(shapes):
    few = np.flatnonzero(np.isin(shapes.test_groups, np.unique(shapes.test_groups)[:3]))
    rows = PreparedRows(
        shapes.X, shapes.y, shapes.X_test[few], shapes.y_test[few], None, shapes.test_groups[few], 10
    )
    assert rows.neighbours()[0].shape == (9, 6)
    assert {"recall_at_1", "map_at_r"} < rows.embedded(lambda X: X).retrieval().keys()


def test_rows_of_known_classes_find_training_rows(tmp_path):
    prepare("digits", tmp_path / "digits", options={"max_train": 200, "max_test": 50})
    rows = PreparedRows.load(tmp_path / "digits", 3)
    assert not rows.new_classes
    given = (rows.X, rows.y, rows.X_test, rows.y_test)
    assert rows.accuracy() == knn_accuracy(*given, n_neighbors=3)
    assert rows.retrieval() == retrieval_scores(rows.X_test, rows.y_test, rows.X, rows.y)


@pytest.mark.parametrize("method", ["flrml", "mflrml", "flrml-ridge", "lmnn", "lda", "kissme", "nca", "frml"])
def test_methods_train_on_some_of_the_classes(method, shapes):
    model = build(method, n_components=3, random_state=0).fit(shapes.X, shapes.y)
    assert 0 < shapes.accuracy(model) <= 1
