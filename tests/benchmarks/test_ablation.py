import sys

import numpy as np
import pytest

from benchmarks import ablation
from flrml import RidgeFLRML


def test_a_run_that_was_cut_goes_on(tmp_path, monkeypatch, capsys):
    fitted = []

    def fit(X, y, groups, seed):
        fitted.append(seed)
        if len(fitted) == 2:
            raise KeyboardInterrupt
        return RidgeFLRML(10, ridge=1.0, within=0.0, local=1.0, rounds=0).fit(X, y)

    monkeypatch.setattr(ablation, "CHANGES", {"auto": fit, "without `groups`": fit})
    place = ["--prepared", str(tmp_path / "data"), "--results", str(tmp_path / "results.jsonl")]
    monkeypatch.setattr(sys, "argv", ["ablation", "digits", "--seeds", "2", *place])
    with pytest.raises(KeyboardInterrupt):
        ablation.main()
    ablation.main()
    ablation.main()
    assert fitted == [0, 1, 1]  # digits have no groups
    table = capsys.readouterr().out.splitlines()
    assert table[0] == "| change | digits |"
    assert table[2].endswith("± 0.0 |")
    assert table[3] == "| without `groups` | – |"


@pytest.mark.filterwarnings("ignore::flrml.exceptions.FlrmlWarning")
@pytest.mark.parametrize("change", ["smoothed weights", "5 random triplets"])
def test_a_change_changes_the_map_and_is_undone(change):
    """Of data on which discriminants win: triplets do not matter to the closed form of the data's own geometry."""
    random, y = np.random.RandomState(0), np.arange(300) % 3
    X = np.hstack((random.randn(300, 60), 0.5 * np.eye(3)[y]))

    def learned(change):
        return ablation.CHANGES[change](X, y, None, 0).get_mahalanobis_matrix()

    before, changed = learned("auto"), learned(change)
    assert abs(before - changed).max() > 1e-6 * abs(before).max()
    assert abs(before - learned("auto")).max() == 0
