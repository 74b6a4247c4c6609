"""Leave out data sets whose raw files can neither be found nor fetched, before any job starts."""

import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flrml.datasets.fetch import RawFiles, RemoteFile
from flrml.datasets.options import resolve
from flrml.datasets.registry import find_dataset
from flrml.exceptions import DamagedFileError
from flrml.files import PathLike, read_json, write_json
from flrml.pipeline.config.resolve import ConfigError, without_datasets

ANSWERS = "at_hand.json"  # in the results folder
SECONDS_TO_ANSWER = 5


def leave_out_missing(
    config: dict[str, Any], raw_dir: str, answers: Callable[[str], bool]
) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """Return the configuration without data sets that lack raw files, those with the reason, and lines that say so.

    A data set whose ``fallback`` options need no missing file stays, with these options. One that is prepared
    already stays as it is. ``answers``, such as :class:`Addresses`, returns whether an address has its file.
    """
    missing: dict[str, str] = {}
    reasons: dict[str, str] = {}
    datasets, lines = dict(config["datasets"]), []
    for name, dataset in datasets.items():
        if Path(config["results"], "data", name, "meta.json").exists():
            continue
        files = missing_files(dataset["source"], raw_dir, dataset["options"], answers)
        if not files:
            continue
        wanted = f"{' and '.join(files)} {'are' if len(files) > 1 else 'is'} not"
        options = dataset["options"] | dataset.get("fallback", {})
        if "fallback" in dataset and not missing_files(dataset["source"], raw_dir, options, answers):
            datasets[name] = dataset | {"options": options}
            instead = ", ".join(f"{key}: {value}" for key, value in dataset["fallback"].items())
            lines.append(f"{name} is prepared with {instead}, because {wanted} available")
        else:
            missing[name] = f"{wanted} available"  # tables travel, so they name no folder
            addresses = ", ".join(address for address in files.values() if address)
            reasons[name] = f"{wanted} in {raw_dir}" + (f", and no answer from {addresses}" if addresses else "")
            lines.append(f"{name} is left out: {reasons[name]}")
    if missing and (config["strict"] or len(missing) == len(datasets)):
        every = "; ".join(f"datasets.{name}: {reason}" for name, reason in reasons.items())
        raise ConfigError(f"{every}; put the files into {raw_dir}, or take the data sets out")
    return without_datasets(config | {"datasets": datasets}, missing), missing, lines


def missing_files(
    name: str, raw_dir: Any, options: Mapping[str, Any] | None, answers: Callable[[str], bool]
) -> dict[str, str | None]:
    """Return the raw files that a data set lacks and their addresses: those that can neither be found nor fetched.

    Of several alternatives the one that lacks least is reported; nothing is missing if one is complete. The user's
    own data and those in wheels are not checked. With ``holdout``, files of the test part are not needed.
    """
    dataset, raw = find_dataset(name, options), RawFiles(raw_dir)
    held_out = resolve(name, dataset.options, options)["holdout"] is not None
    lacking: list[dict[str, str | None]] = []
    for files in dataset.raw:
        needed = [_address(file) for file in files if not (held_out and _is_test_part(file))]
        absent = [(file, address) for file, address in needed if raw.find(file) is None]
        if not absent:
            return {}
        lacking.append({file: address for file, address in absent if address is None or not answers(address)})
    return min(lacking, key=len, default={})


def _address(file: RemoteFile | str) -> tuple[str, str | None]:
    return (file.name, file.url) if isinstance(file, RemoteFile) else (file, None)


def _is_test_part(file: RemoteFile | str) -> bool:
    return isinstance(file, RemoteFile) and file.test_part


class Addresses:
    """Ask addresses whether they have their files, once at the start of a run, and keep the answers in a file.

    Jobs and dry runs, which do not ``ask``, read that file, so that the graph of jobs does not depend on the
    network. An address that was never asked is expected to answer.
    """

    def __init__(self, results: PathLike, *, ask: bool):
        self.path, self.ask = Path(results) / ANSWERS, ask
        self.asked: set[str] = set()
        try:
            self.known: dict[str, bool] = read_json(self.path)
        except (FileNotFoundError, DamagedFileError):
            self.known = {}

    def __call__(self, address: str) -> bool:
        """Return whether an address has its file."""
        if self.ask and address not in self.asked:
            self.asked.add(address)
            self.known[address] = has_file(address)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self.path, self.known)
        return self.known.get(address, True)


def has_file(address: str) -> bool:
    """Return whether an address answers within a few seconds that it has the file."""
    request = urllib.request.Request(address, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=SECONDS_TO_ANSWER):
            return True
    except urllib.error.HTTPError as error:
        return error.code == 405  # no answer to HEAD, though perhaps to GET
    except OSError:
        return False
