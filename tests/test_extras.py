import subprocess
import sys

import pytest

from flrml.extras import require

# joblib belongs to the extra `data` too, but scikit-learn always brings it.
DATA = ("pooch", "tqdm", "pandas", "pyarrow", "requests")
BLOCKED = f"""
import sys
for name in {DATA}:
    sys.modules[name] = None
"""


def run(script, folder):
    command = [sys.executable, "-c", BLOCKED + script]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_core_works_without_the_extra_data(tmp_path):
    script = """
import numpy as np
import flrml, flrml.datasets
from flrml.datasets import REGISTRY, open_split, raw_files
from flrml.datasets.options import resolve
X = np.random.default_rng(0).random((40, 6))
print(flrml.FLRML(2).fit(X, np.arange(40) % 2).transform(X).shape, len(REGISTRY), raw_files("tdt2"))
"""
    done = run(script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(40, 2)")


def test_prepare_names_the_extra_that_it_needs(tmp_path):
    script = """
from flrml.datasets import prepare
try:
    prepare("digits", "out")
except ImportError as error:
    print(error)
"""
    done = run(script, tmp_path)
    assert done.stdout == "prepare needs pooch: pip install 'flrml[data]'\n", done.stderr
    assert list(tmp_path.iterdir()) == []


def test_prepared_data_opens_without_the_extra(tmp_path):
    from flrml.datasets import prepare

    prepare("digits", tmp_path / "digits")
    script = """
from flrml.datasets import load_meta, open_groups, open_split
print(open_split("digits/train")[0].shape, open_groups("digits/train"), load_meta("digits")["name"])
"""
    done = run(script, tmp_path)
    assert done.stdout == "(1438, 64) None digits\n", done.stderr


def test_require_returns_the_module():
    import json.decoder

    assert require("json.decoder", extra="data", needed_by="prepare") is json.decoder


def test_a_missing_package_is_named_with_its_extra():
    with pytest.raises(ImportError, match=r"^FRML needs no_such_package: pip install 'flrml\[baselines\]'$"):
        require("no_such_package.part", extra="baselines", needed_by="FRML")


def test_a_package_that_lacks_a_dependency_speaks_for_itself(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import no_such_dependency")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        require("half_installed", extra="data", needed_by="prepare")
