import doctest
import importlib

import pytest


@pytest.mark.parametrize("module", ["extras", "datasets.preparation", "datasets.store"])
def test_examples_in_docstrings_run(module):
    found = doctest.testmod(importlib.import_module(f"flrml.{module}"))
    assert found.attempted > 0
    assert found.failed == 0
