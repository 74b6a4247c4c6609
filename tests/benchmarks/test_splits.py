import json
import sys

import numpy as np
import pytest

from benchmarks import splits
from flrml import knn_accuracy
from flrml.datasets import open_split, prepare
from flrml.ridge.supervision import Labels


@pytest.mark.filterwarnings("ignore::flrml.exceptions.FlrmlWarning")  # 64 features have fewer than 100 directions
def test_methods_are_judged_on_rows_held_out_and_only_once(tmp_path, monkeypatch, capsys):
    folder, results = tmp_path / "digits", tmp_path / "results.jsonl"
    prepare("digits", folder)

    def run(*methods, rows=()):
        arguments = [str(folder), "--results", str(results), "--seeds", "2", *rows, "--methods", *methods]
        monkeypatch.setattr(sys, "argv", ["splits", *arguments])
        splits.main()
        return [json.loads(line) for line in results.read_text().splitlines()]

    run("cosine")
    found = run("cosine", "kissme", "flrml-reference")
    assert [(row[2], row[3]) for row in found] == [
        ("cosine", 0),
        ("cosine", 1),
        ("kissme", 0),
        ("flrml-reference", 0),
        ("kissme", 1),
        ("flrml-reference", 1),
    ]
    X, y = open_split(folder / "train")
    kept, held = Labels(y).folds(np.random.RandomState(1))[0]
    assert found[1][-1] == knn_accuracy(X[kept], y[kept], X[held], y[held])
    assert capsys.readouterr().out.splitlines()[-1].startswith("| flrml-reference | ")

    few = run("cosine", rows=["--rows", "50"])[-1]
    random = np.random.RandomState(1)
    rows, held = Labels(y).folds(random)[0]
    rows = random.choice(rows, 50, replace=False)
    assert few == [500, "digits, 50 rows", "cosine", 1, knn_accuracy(X[rows], y[rows], X[held], y[held])]
