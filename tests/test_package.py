import subprocess
import sys
from collections import Counter
from pathlib import Path

import flrml

LIGHT = ("mlflow", "matplotlib", "snakemake", "pymanopt", "pyriemann", "dask", "distributed")
FOLDER = Path(flrml.__file__).parent


def test_import_is_light():
    code = f"import sys, flrml; sys.exit(', '.join(name for name in {LIGHT} if name in sys.modules) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_name_of_a_module_occurs_twice():
    names = Counter(path.stem for path in FOLDER.rglob("*.py"))
    assert [name for name, count in names.items() if count > 1] == ["__init__"]
