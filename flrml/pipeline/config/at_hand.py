"""Leave out data sets that lack raw files, before any job starts."""

from pathlib import Path
from typing import Any

from flrml.datasets.availability import missing_files
from flrml.pipeline.config.resolve import ConfigError, without_datasets


def leave_out_missing(config: dict[str, Any], raw_dir: str) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """Return the configuration without data sets that lack raw files, those with the reason, and lines that say so.

    A data set whose ``fallback`` options need no missing file stays, with these options. One that is prepared
    already stays as it is.

    Parameters
    ----------
    config : dict
        The resolved configuration.
    raw_dir : path
        Folder that is searched for raw files.
    """
    missing: dict[str, str] = {}
    reasons: dict[str, str] = {}
    datasets, lines = dict(config["datasets"]), []
    for name, dataset in datasets.items():
        files = missing_files(dataset["source"], raw_dir, dataset["options"])
        if not files:
            continue
        options = dataset["options"] | dataset.get("fallback", {})
        if "fallback" in dataset and not missing_files(dataset["source"], raw_dir, options):
            datasets[name] = dataset | {"options": options}
            instead = ", ".join(f"{key}: {value}" for key, value in dataset["fallback"].items())
            lines.append(f"{name} is prepared with {instead}, because {' and '.join(files)} cannot be had")
        elif not Path(config["results"], "data", name, "meta.json").exists():
            wanted = " and ".join(files)
            missing[name] = f"{wanted} cannot be had"  # tables travel, so they name no folder
            reasons[name] = f"{wanted} is neither in {raw_dir} nor can it be fetched"
            lines.append(f"{name} is left out: {reasons[name]}")
    if missing and (config["strict"] or len(missing) == len(datasets)):
        name, reason = next(iter(reasons.items()))
        raise ConfigError(f"datasets.{name}: {reason}; supply it, or take the data set out")
    return without_datasets(config | {"datasets": datasets}, missing), missing, lines
