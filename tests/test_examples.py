"""Every example runs as it is and draws a figure."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("plot_*.py"))
DRAW = """
import sys, matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
plt.show = lambda: plt.savefig(sys.argv[2])
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_an_example_runs(example, tmp_path):
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", DRAW, str(example), str(tmp_path / "figure.png")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "figure.png").stat().st_size > 5000
    print(f"{example.stem}: {time.monotonic() - start:.0f} s")
