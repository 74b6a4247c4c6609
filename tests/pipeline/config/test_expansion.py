"""Studies: splits of training parts, methods under other names, grids of parameters."""

from pathlib import Path

import numpy as np
import pytest

from flrml.datasets import open_groups, open_split, prepare
from flrml.pipeline.config.expansion import methods_on
from flrml.pipeline.config.resolve import ConfigError, resolve

SCHEMA = Path(__file__).parents[3] / "workflow" / "schemas" / "config.schema.yaml"


def test_splits_become_data_sets_of_their_own():
    datasets = {"few": {"source": "digits", "splits": 2, "options": {"max_train": 100}}, "digits": {}}
    config = resolve({"datasets": datasets}, SCHEMA)
    assert list(config["datasets"]) == ["few-split0", "few-split1", "digits"]
    assert config["datasets"]["few-split1"]["options"] == {"max_train": 100, "split": 1}
    assert config["datasets"]["few-split1"]["source"] == config["datasets"]["digits"]["source"] == "digits"
    assert config["datasets"]["few-split1"]["study"] == "few"
    assert "study" not in config["datasets"]["digits"]


def test_splits_of_the_classes_are_other_halves():
    datasets = {"new": {"source": "digits", "splits": 2, "options": {"split": "classes"}}}
    config = resolve({"datasets": datasets}, SCHEMA)
    assert [dataset["options"]["split"] for dataset in config["datasets"].values()] == ["classes-0", "classes-1"]


def test_methods_under_other_names_and_grids():
    methods = {
        "flrml-ridge": {},
        "no-rounds": {"method": "flrml-ridge", "rounds": 0},
        "oasis": {"C": 0.1, "grid": {"n_passes": [1, 5], "C": [0.01, 0.1]}},
    }
    resolved = resolve({"datasets": {"digits": {}}, "methods": methods}, SCHEMA)["methods"]
    assert resolved["no-rounds"] == {"method": "flrml-ridge", "parameters": {"rounds": 0}}
    assert list(resolved) == [
        "flrml-ridge",
        "no-rounds",
        "oasis,n_passes=1,C=0.01",
        "oasis,n_passes=1,C=0.1",
        "oasis,n_passes=5,C=0.01",
        "oasis,n_passes=5,C=0.1",
    ]
    assert resolved["oasis,n_passes=5,C=0.01"]["parameters"] == {"n_passes": 5, "C": 0.01}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"methods": {"mine": {"method": "flmrl"}}}, "methods.mine: unknown method 'flmrl'"),
        ({"methods": {"mine": {"method": "flrml", "roundz": 1}}}, "methods.mine: method 'flrml' has no parameter"),
        ({"methods": {"oasis": {"grid": {"D": [1]}}}}, "methods.oasis,D=1: method 'oasis' has no parameter 'D'"),
        ({"datasets": {"mine": {"source": "digitz", "splits": 2}}}, "mine.options: digitz: no such data set"),
        ({"datasets": {"digits": {"splits": 0}}}, "datasets.digits.splits: 0 is less than the minimum"),
    ],
)
def test_mistakes_are_named(given, words):
    with pytest.raises(ConfigError) as caught:
        resolve({"datasets": {"digits": {}}} | given, SCHEMA)
    assert words in str(caught.value)


def test_a_data_set_may_name_the_methods_that_run_on_it():
    methods = {"flrml": {}, "cosine": {}, "flrml-ridge": {"grid": {"ridge": [1.0, 2.0]}}}
    config = resolve({"datasets": {"digits": {}, "r8": {"methods": ["flrml-ridge"]}}, "methods": methods}, SCHEMA)
    on = {name: methods_on(dataset, config["methods"]) for name, dataset in config["datasets"].items()}
    assert on["r8"] == ["flrml-ridge,ridge=1.0", "flrml-ridge,ridge=2.0"]
    assert on["digits"] == ["flrml", "cosine", *on["r8"]]


def test_a_split_holds_out_rows_of_the_training_part_with_their_groups(tmp_path):
    whole = {"models": (6, 2), "poses": 3}
    prepare("shapes10-16", tmp_path / "whole", options=whole)
    n_train = open_split(tmp_path / "whole" / "train")[0].shape[0]
    parts = []
    for split in (0, 1):
        prepare("shapes10-16", tmp_path / f"split{split}", options=whole | {"split": split})
        rows = [open_split(tmp_path / f"split{split}" / part)[0] for part in ("train", "test")]
        assert sum(X.shape[0] for X in rows) == n_train
        assert rows[1].shape[0] == n_train // 5
        groups = [set(open_groups(tmp_path / f"split{split}" / part)) for part in ("train", "test")]
        assert not groups[0] & groups[1]
        parts.append(groups[1])
    assert parts[0] != parts[1]


def test_a_split_never_sees_the_test_part(tmp_path):
    prepare("digits", tmp_path / "whole")
    prepare("digits", tmp_path / "split", options={"split": 3})
    seen = {row.tobytes() for part in ("train", "test") for row in open_split(tmp_path / "split" / part)[0]}
    X, _ = open_split(tmp_path / "whole" / "train")
    assert seen == {np.asarray(row).tobytes() for row in X}
