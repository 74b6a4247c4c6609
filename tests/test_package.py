import doctest
import importlib
import subprocess
import sys

import pytest

LIGHT = ("mlflow", "matplotlib", "snakemake", "pymanopt", "pyriemann", "dask", "distributed")


def test_import_is_light():
    code = f"import sys, flrml; sys.exit(', '.join(name for name in {LIGHT} if name in sys.modules) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "module", ["rows.binary", "flrml", "mflrml", "neighbors", "ridge.estimator", "spectrum", "triplets"]
)
def test_examples_in_docstrings_run(module):
    found = doctest.testmod(importlib.import_module(f"flrml.{module}"))
    assert found.attempted > 0
    assert found.failed == 0
