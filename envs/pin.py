"""Pin the packages of envs/flrml.yaml to the versions in requirements.lock: ``python envs/pin.py``."""

import re
from pathlib import Path

from packaging.requirements import Requirement

HERE = Path(__file__).parent
PYTHON = "3.11"


def locked(lock: str) -> dict[str, str]:
    """Return the version of every locked package for the Python of the environment."""
    found = {}
    for line in re.findall(r"^[A-Za-z0-9][^\n\\]*==[^\n\\]*", lock, re.MULTILINE):
        package = Requirement(line.strip())
        if package.marker is None or package.marker.evaluate({"python_full_version": f"{PYTHON}.0"}):
            found[package.name] = next(iter(package.specifier)).version
    return found


def pinned(environment: str, versions: dict[str, str]) -> str:
    """Return the environment with every package at its locked version."""

    def pin(match: re.Match) -> str:
        package = Requirement(match[2])
        extras = f"[{','.join(sorted(package.extras))}]" if package.extras else ""
        return f"{match[1]}{package.name}{extras}=={versions[package.name]}"

    return re.sub(r"^(    - )(.+)$", pin, environment, flags=re.MULTILINE)


if __name__ == "__main__":
    path = HERE / "flrml.yaml"
    path.write_text(pinned(path.read_text(), locked((HERE.parent / "requirements.lock").read_text())))
