"""Check the configuration of an experiment before any job starts, and fill in defaults."""

import math
import os
from collections.abc import Collection, Container, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jsonschema
import yaml
from sklearn.utils._param_validation import InvalidParameterError

from flrml.datasets import REGISTRY
from flrml.datasets.options import resolve as resolve_options
from flrml.datasets.registry import find_dataset
from flrml.methods import METHODS, add_methods, build, suggest
from flrml.pipeline.config.expansion import expand
from flrml.pipeline.naming import SWEEPS, Sweep, experiment_of, results_of
from flrml.pipeline.report.catalog import FIGURES

MOST_VALUES, MOST_COMBINATIONS = 100_000, 1000
LONGEST_TEXT, LONGEST_NAME = 1000, 200  # of a text, and of the name of a file or folder
TRUTH = {"true": True, "True": True, "false": False, "False": False}  # on the command line


class ConfigError(ValueError):
    """The configuration cannot be run; the message is one line that names the key."""


def resolve(config: dict[str, Any], schema: str | Path) -> dict[str, Any]:
    """Check a configuration against the schema and the registries; return it with defaults filled in."""
    _check_values(config)
    rules = load_schema(schema)
    config = {
        name: TRUTH.get(value, value)
        if isinstance(value, str) and rules["properties"].get(name, {}).get("type") == "boolean"
        else value
        for name, value in config.items()
    }
    validator = jsonschema.Draft202012Validator(rules)
    problems = sorted(validator.iter_errors(config), key=lambda problem: len(problem.absolute_path))
    if problems:
        raise ConfigError(_explain(problems[0]))
    config = _with_defaults(config, rules)
    config |= {"results": results_of(config), "experiment": experiment_of(config)}
    if "@" in urlsplit(config["tracking_uri"]).netloc:
        raise ConfigError(
            "tracking_uri: must not hold a user or a password; "
            "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        )
    if config["offline"]:
        offline = {name for name, dataset in REGISTRY.items() if dataset.offline}
        config["datasets"] = {k: v for k, v in config["datasets"].items() if k in offline}
        config["datasets"].setdefault("digits", _with_defaults({}, rules["$defs"]["dataset"]))
        config["figures"] = _restricted(config["figures"], config["datasets"], list(config["datasets"])[:1])
    _check_grids(config["methods"])
    config = expand(config)
    _check_classes(config["methods"])
    add_methods(config["methods"])
    _check_results(config["results"])
    _check_names(config)
    return config


def _check_values(config: dict[str, Any]) -> None:
    """Refuse numbers that are not finite, texts with NUL, and configurations without end."""
    waiting: list[tuple[str, Any]] = [("", config)]
    for _ in range(MOST_VALUES):
        if not waiting:
            return
        key, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{key}.{name}".lstrip("."), part) for name, part in value.items()]
        elif isinstance(value, list):
            waiting += [(key, part) for part in value]
        elif isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{key}: must be a finite number, got {value}")
        elif isinstance(value, str) and ("\0" in value or len(value) > LONGEST_TEXT):
            raise ConfigError(f"{key}: must be at most {LONGEST_TEXT} characters without NUL, got {value[:40]!r}")
    raise ConfigError(f"the configuration has more than {MOST_VALUES:,} values; check its aliases and lists")


def _check_results(results: str) -> None:
    """Refuse a folder of results that holds, or is likely to hold, other things."""
    folder, here = Path(results).resolve(), Path.cwd().resolve()
    if results.startswith("~"):
        raise ConfigError(f"results: {results!r} starts with ~, which is not expanded; write the path out")
    if any(len(os.fsencode(part)) > LONGEST_NAME for part in folder.parts):
        raise ConfigError(f"results: a folder has a name of more than {LONGEST_NAME} characters; shorten it")
    if folder in (here, *here.parents, Path.home().resolve()):
        raise ConfigError(f"results: {results!r} holds other things too; name a folder below it, such as results")


def _check_grids(methods: dict[str, Any]) -> None:
    """Check that grids list values, and not too many; the values are parts of folders' names."""
    for name, entry in methods.items():
        grid = (entry or {}).get("grid", {})
        if not isinstance(grid, dict) or not all(isinstance(values, list) and values for values in grid.values()):
            raise ConfigError(f"methods.{name}.grid: must map parameters to lists of values, got {grid!r}")
        if math.prod(map(len, grid.values())) > MOST_COMBINATIONS:
            raise ConfigError(
                f"methods.{name}.grid: more than {MOST_COMBINATIONS:,} combinations; shorten its lists"
            )
        texts = {key: max(map(str, values), key=len) for key, values in grid.items()}
        slashed = next((str(value) for values in grid.values() for value in values if "/" in str(value)), None)
        if slashed or sum(map(len, [name, *texts, *texts.values()])) > LONGEST_NAME:
            wrong = (slashed or max(texts.values(), key=len))[:60]
            raise ConfigError(f"methods.{name}.grid: {wrong!r} cannot be in a folder's name; shorten it, without /")


def _check_classes(methods: dict[str, Any]) -> None:
    """Check that the classes from outside flrml can be imported and look like estimators."""
    for label, entry in methods.items():
        if "class" not in entry:
            continue
        key, path = f"methods.{label}.class", entry["class"]
        if entry["method"] in METHODS and METHODS[entry["method"]].path != path:
            raise ConfigError(f"{key}: {entry['method']!r} is a method of flrml; choose another name")
        module, _, name = str(path).rpartition(".")
        try:
            found = getattr(import_module(module), name, None)
        except (ImportError, ValueError) as error:
            raise ConfigError(
                f"{key}: cannot import {path!r} ({error}); give module and class, such as mypackage.Mine, "
                "installed or in the working folder"
            ) from None
        if not isinstance(found, type):
            raise ConfigError(
                f"{key}: module {module!r} has no class {name!r}{suggest(name, vars(import_module(module)))}"
            )
        lacking = [
            method for method in ("fit", "transform", "get_params") if not callable(getattr(found, method, None))
        ]
        if lacking:
            raise ConfigError(
                f"{key}: {path} has no method {lacking[0]}; it must be a scikit-learn style transformer"
            )


def load_schema(path: str | Path) -> dict[str, Any]:
    """Read the schema of a configuration from YAML, and add the keys of ``figures`` from the catalog."""
    rules = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    rules["properties"]["figures"]["properties"] = {name: figure.schema for name, figure in FIGURES.items()}
    return rules


def _check_names(config: dict[str, Any]) -> None:
    for name, dataset in config["datasets"].items():
        key, source = f"datasets.{dataset.get('study', name)}", dataset["source"]
        named = [label.split(",")[0] for label in config["methods"]]
        for method in dataset.get("methods", []):
            wrong = f"{key}.methods: {method!r} is not among the methods of this configuration"
            _check_choice(method, list(dict.fromkeys(named)), wrong)
        for place, options in (("options", {}), ("fallback", dataset.get("fallback", {}))):
            try:
                options = dataset["options"] | options
                resolve_options(source, find_dataset(source, options).options, options)
            except ValueError as error:
                raise ConfigError(f"{key}.{place}: {error}") from None
    for name, entry in config["methods"].items():
        try:
            build(entry["method"], **entry["parameters"])
        except ValueError as error:
            raise ConfigError(f"methods.{name}: {error}") from None
    for figure, settings in config["figures"].items():
        for place, methods in _mentioned(settings, "methods"):
            _check_swept(config, f"figures.{figure}{place}", methods, SWEEPS.get(figure))
    _check_parameters(config)
    for figure, settings in config["figures"].items():
        for place, names in _mentioned(settings, "datasets", "dataset"):
            for name in names:
                _check_figure(config, f"figures.{figure}{place}", name, needs_svd=FIGURES[figure].needs_svd)
    if "convergence" in config["figures"] and not {"flrml", "flrml-reference"} & {
        entry["method"] for entry in config["methods"].values()
    }:
        raise ConfigError("figures.convergence: needs flrml or flrml-reference among the methods")


def _check_parameters(config: dict[str, Any]) -> None:
    """Check that common parameters belong to some method, and that every method accepts its values."""
    used = [METHODS[name].accepts for name in used_methods(config)]
    known = sorted({name for accepts in used for name in accepts} - {"random_state"})
    for name in config["common"]:
        _check_choice(name, known, f"common.{name}: no method of this configuration has this parameter")
    for label, entry in config["methods"].items():
        method, own = entry["method"], entry["parameters"]
        common = {name: value for name, value in config["common"].items() if name in METHODS[method].accepts}
        try:
            estimator = build(method, **(common | own))
            if hasattr(estimator, "_parameter_constraints"):
                estimator._validate_params()
        except InvalidParameterError as error:
            name = next((name for name in own if repr(name) in str(error)), None)
            place = f"methods.{label}" if name else "common"
            raise ConfigError(f"{place}: {str(error).replace(chr(10), ' ')}") from None


def _check_figure(config: dict[str, Any], place: str, name: str, *, needs_svd: bool) -> None:
    datasets = config["datasets"]
    _check_choice(name, datasets, f"{place}: {name!r} is not among the data sets of this configuration")
    if needs_svd and not datasets[name]["svd"]:
        with_svd = [other for other, dataset in datasets.items() if dataset["svd"]]
        raise ConfigError(f"{place}: {name!r} has svd: false; choose from {', '.join(with_svd) or 'none'}")


def _mentioned(settings: dict[str, Any], *keys: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the names that the settings of a figure, or a part of them, list under some keys, with the place."""
    parts = {f".{axis}": part for axis, part in settings.items() if isinstance(part, dict)}
    for place, part in ({"": settings} | parts).items():
        for key in (key for key in keys if key in part):
            yield f"{place}.{key}", [part[key]] if isinstance(part[key], str) else part[key]


def used_methods(config: dict[str, Any]) -> set[str]:
    """Return the registered methods that the methods and figures of a resolved configuration name."""
    places = (place for settings in config["figures"].values() for place in _mentioned(settings, "methods"))
    named = {label: entry["method"] for label, entry in config["methods"].items()}
    return {named.get(name, name) for _, names in places for name in names} | set(named.values())


def _check_swept(config: dict[str, Any], place: str, methods: list[str], sweep: Sweep | None) -> None:
    """Check that methods exist, under any name, and, for a sweep, that they have its parameter."""
    known = dict(METHODS) | {label: METHODS[entry["method"]] for label, entry in config["methods"].items()}
    allowed = [name for name, method in known.items() if sweep is None or sweep.parameter in method.accepts]
    for name in methods:
        what = "unknown method" if name not in known else "method without this parameter"
        _check_choice(name, allowed, f"{place}: {what} {name!r}")


def _check_choice(name: str, choices: Collection[str], wrong: str) -> None:
    """Refuse a name that is not among the choices, with what is wrong, a suggestion and the choices."""
    if name not in choices:
        raise ConfigError(f"{wrong}{suggest(name, choices)}; choose from {', '.join(choices) or 'none'}")


def without_datasets(config: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return a resolved configuration without some data sets; figures that have no other are dropped."""
    kept = {name: dataset for name, dataset in config["datasets"].items() if name not in set(names)}
    return config | {"datasets": kept, "figures": _restricted(config["figures"], kept, [])}


def _restricted(figures: dict[str, Any], datasets: Container[str], instead: list[str]) -> dict[str, Any]:
    """Restrict figures to the given data sets; one that has none of them shows others instead, if there are any."""
    kept = {}
    for name, settings in figures.items():
        parts = {
            key: part
            for key, part in settings.items()
            if not isinstance(part, dict) or part.get("dataset") in datasets
        }
        if "datasets" in parts:
            parts["datasets"] = [name for name in parts["datasets"] if name in datasets] or instead
        if (parts or not settings) and parts.get("datasets") != []:
            kept[name] = parts
    return kept


def _explain(problem: jsonschema.ValidationError) -> str:
    """Return one line that names the key, what is wrong with it, and the choices."""
    key = ".".join(str(part) for part in problem.absolute_path) or "the configuration"
    schema: Any = problem.schema
    if problem.validator == "additionalProperties":
        known = list(schema["properties"])
        unknown = next(name for name in problem.instance if name not in known)
        place = f"{key}." if problem.absolute_path else ""
        return f"{place}{unknown}: unknown key{suggest(unknown, known)}; choose from {', '.join(known)}"
    if problem.validator == "type":
        return f"{key}: must be {_kinds(schema['type'])}, got {problem.instance!r}"
    if problem.validator == "required":
        missing = next(name for name in schema["required"] if name not in problem.instance)
        return f"{key}.{missing}: missing" if problem.absolute_path else f"{missing}: missing"
    if problem.validator == "pattern" and key == "dask_scheduler":
        return f"{key}: {problem.instance!r} is not an address; give one such as tcp://host:8786"
    if problem.validator == "pattern":
        return f"{key}: {problem.instance!r} must consist of letters, digits, ., _ and -, and be more than dots"
    if problem.validator == "enum":
        return f"{key}: must be one of {', '.join(map(str, schema['enum']))}; got {problem.instance!r}"
    return f"{key}: {problem.message}"


def _kinds(kinds: str | list[str]) -> str:
    words = {"integer": "an integer", "number": "a number", "string": "a string", "boolean": "true or false"}
    words |= {"array": "a list", "object": "a mapping", "null": "empty"}
    return " or ".join(words[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds))


def _with_defaults(value: Any, schema: dict, root: dict | None = None) -> Any:
    """Fill in the defaults that the schema states, at every depth."""
    root = root or schema
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]] | {k: v for k, v in schema.items() if k != "$ref"}
    if value is None and "object" in schema.get("type", ""):
        value = {}
    if not isinstance(value, dict):
        return value
    filled = dict(value)
    for name, rule in schema.get("properties", {}).items():
        if name not in filled and "default" in rule:
            filled[name] = rule["default"]
        if name in filled:
            filled[name] = _with_defaults(filled[name], rule, root)
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        for name in filled:
            if name not in schema.get("properties", {}):
                filled[name] = _with_defaults(filled[name], others, root)
    return filled
