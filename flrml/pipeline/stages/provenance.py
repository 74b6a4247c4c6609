"""Record the versions and the git commit that a result comes from."""

import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("flrml", "numpy", "scipy", "scikit-learn")


@cache
def provenance() -> dict[str, str]:
    """Return versions and git commit of the running code."""
    found = {"python": platform.python_version()} | {package: version(package) for package in PACKAGES}
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        commit = subprocess.run(
            [*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD"], check=False).returncode != 0
        found["git_commit"] = commit + ("+changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        found["git_commit"] = "unknown"
    return found
