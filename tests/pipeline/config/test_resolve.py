"""Mistakes in a configuration: each gives one line that names the key and the choices."""

import copy
from pathlib import Path

import pytest
import yaml

from flrml.pipeline.config.resolve import ConfigError, resolve, used_methods

ROOT = Path(__file__).parents[3]
SCHEMA = ROOT / "workflow" / "schemas" / "config.schema.yaml"
CONFIGS = [path.stem for path in sorted((ROOT / "workflow" / "configs").glob("*.yaml"))]
TINY = yaml.safe_load((ROOT / "workflow" / "configs" / "tiny.yaml").read_text())


def changed(place, value):
    """The tiny configuration with one value changed; the place is a path of keys."""
    config = copy.deepcopy(TINY)
    *folders, last = place.split("/")
    inner = config
    for name in folders:
        inner = inner[name]
    inner[last] = value
    return config


MISTAKES = [
    ("minutes", float("nan"), ["minutes: must be a finite number, got nan"]),
    ("memory_mb", float("inf"), ["memory_mb: must be a finite number, got inf"]),
    ("raw_dir", "a\0b", ["raw_dir: must be at most 1000 characters without NUL"]),
    ("raw_dir", 800 * "x/y", ["raw_dir: must be at most 1000 characters"]),
    ("results", 250 * "x", ["results: a folder has a name of more than 200 characters"]),
    ("methods/flrml", {"grid": 5}, ["methods.flrml.grid: must map parameters to lists of values, got 5"]),
    ("methods/flrml", {"grid": {"tol": 1}}, ["methods.flrml.grid: must map parameters to lists"]),
    ("methods/flrml", {"grid": {"init": ["a/b"]}}, ["methods.flrml.grid:", "cannot be in a folder's name"]),
    ("methods/flrml", {"grid": {"tol": list(range(1, 1002))}}, ["more than 1,000 combinations"]),
    ("datasets/digits", {"splits": 10**9}, ["datasets.digits.splits: 1000000000 is greater than the maximum"]),
    ("seeds", [2**32], ["seeds.0: 4294967296 is greater than the maximum"]),
    ("max_rnk", 5, ["max_rnk: unknown key", "did you mean 'max_rank'?", "n_triplets"]),
    (
        "datasets/mine",
        {"options": {"trian": "a.csv"}},
        ["datasets.mine.options: mine: unknown option 'trian'", "did you mean 'train'?"],
    ),
    ("figures/margn", {}, ["figures.margn: unknown key", "did you mean 'margin'?", "growth"]),
    ("datasets/digits/optoins", {}, ["datasets.digits.optoins: unknown key", "did you mean 'options'?"]),
    ("max_rank", "many", ["max_rank: must be an integer, got 'many'"]),
    ("max_rank", 0, ["max_rank: 0 is less than the minimum of 1"]),
    ("offline", "yes", ["offline: must be true or false, got 'yes'"]),
    ("seeds", 3, ["seeds: must be a list, got 3"]),
    ("dask_scheduler", "host", ["dask_scheduler: 'host' is not an address", "tcp://host:8786"]),
    ("datasets", "digits", ["datasets: must be a mapping"]),
    ("datasets", {}, ["datasets: {} should be non-empty"]),
    ("datasets/my data", {}, ["datasets: 'my data' must consist of letters, digits"]),
    (
        "datasets/digitz",
        {},
        ["datasets.digitz.options: digitz: no such data set (did you mean 'digits'?)", "r52", "options format and"],
    ),
    ("datasets/mine", {"options": {"format": "xls", "train": "a.xls"}}, ["datasets.mine.options", "one of", "csv"]),
    (
        "datasets/digits/options/max_trian",
        3,
        ["datasets.digits.options", "unknown option 'max_trian'", "max_train"],
    ),
    (
        "datasets/digits/options/max_train",
        "x",
        ["datasets.digits.options", "max_train is 'x'", "positive integer"],
    ),
    ("methods/flrlm", {}, ["methods.flrlm: unknown method", "did you mean 'flrml'?", "kissme"]),
    ("methods/flrml", {"margin": 1}, ["methods.flrml:", "no parameter 'margin'", "did you mean 'margin_ratio'?"]),
    ("methods/flrml", {"margin_ratio": -1}, ["methods.flrml:", "'margin_ratio'", "Got -1"]),
    ("common/n_componets", 3, ["common.n_componets:", "did you mean 'n_components'?", "max_iter"]),
    ("common/n_components", "x", ["common:", "'n_components'", "Got 'x'"]),
    ("figures/margin/datasets", ["r8"], ["figures.margin.datasets: 'r8' is not among", "digits, shapes10-16"]),
    ("figures/growth/n/dataset", "digit", ["figures.growth.n.dataset: 'digit'", "did you mean 'digits'?"]),
    ("figures/growth/n", {"dataset": "digits"}, ["figures.growth.n.sizes: missing"]),
    ("figures/margin/methods", ["oasis"], ["figures.margin.methods: method without", "'oasis'", "flrml-reference"]),
    ("figures/margin/methods", ["flml"], ["figures.margin.methods: unknown method 'flml' (did you mean 'flrml'?)"]),
    ("figures/batches/methods", ["flrml"], ["figures.batches.methods: method without", "choose from mflrml"]),
    ("figures/growth/n/methods", ["none"], ["figures.growth.n.methods: unknown method 'none'"]),
    ("datasets/digits/fallback", {"holdout": 2}, ["datasets.digits.fallback:", "holdout"]),
    (
        "datasets/digits/methods",
        ["flml"],
        ["datasets.digits.methods: 'flml' is not", "mean 'flrml'?"],
    ),
    ("figures/margin/ratios", [1.0, 1.0], ["figures.margin.ratios", "non-unique"]),
    ("datasets/digits/svd", False, ["figures.convergence.datasets: 'digits' has svd: false", "shapes10-16"]),
    ("methods", {"cosine": {}}, ["figures.convergence: needs flrml or flrml-reference"]),
    ("experiment", "..", ["experiment: '..' must consist of letters"]),
    ("experiment", "a\n", ["experiment: 'a\\n' must consist of letters"]),
    ("experiment", "{a}", ["experiment: '{a}' must consist of letters"]),
    ("datasets/.", {}, ["datasets: '.' must consist of letters"]),
    ("datasets/a\n", {}, ["datasets: 'a\\n' must consist of letters"]),
    ("datasets/{a}", {}, ["datasets: '{a}' must consist of letters"]),
    ("methods/..", {}, ["methods: '..' must consist of letters"]),
    ("experiment", "a/b", ["experiment: 'a/b' must consist of letters, digits"]),
]


@pytest.mark.parametrize(("place", "value", "words"), MISTAKES, ids=[f"{m[0]}={m[1]}" for m in MISTAKES])
def test_a_mistake_gives_one_line_with_key_and_choices(place, value, words):
    with pytest.raises(ConfigError) as caught:
        resolve(changed(place, value), SCHEMA)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_a_missing_key_is_named():
    config = {key: value for key, value in TINY.items() if key != "datasets"}
    with pytest.raises(ConfigError, match=r"^datasets: missing$"):
        resolve(config, SCHEMA)


def test_data_alone_are_a_configuration():
    options = {"train": "reviews.csv", "target": "stars", "holdout": 0.2}
    config = resolve({"datasets": {"reviews": {"options": options}}}, SCHEMA)
    assert {"flrml-ridge", "cosine"} <= set(config["methods"])
    assert config["figures"] == {"pareto": {}}


def test_configurations_do_not_share_a_results_folder():
    shipped = [ROOT / "config.yaml", *(ROOT / "workflow" / "configs").glob("*.yaml")]
    folders = [yaml.safe_load(path.read_text())["results"] for path in shipped]
    assert len(set(folders)) == len(shipped)


@pytest.mark.parametrize("name", ["config.yaml", *(f"workflow/configs/{name}.yaml" for name in CONFIGS)])
def test_shipped_configurations_are_right(name):
    config = resolve(yaml.safe_load((ROOT / name).read_text()), SCHEMA)
    assert config["n_neighbors"] == 5


def test_defaults_are_filled_in_at_every_depth():
    config = resolve(changed("datasets/digits", None) | {"methods": {"flrml": None}}, SCHEMA)
    assert config["seeds"] == [0]
    assert config["datasets"]["digits"] == {"options": {}, "svd": True, "source": "digits"}
    assert config["figures"]["margin"]["methods"] == ["flrml", "flrml-reference"]


def test_figures_sweep_methods_under_names_of_the_configuration():
    mine = {"methods": {"mine": {"method": "flrml"}}}
    config = resolve(changed("figures/margin/methods", ["mine", "flrml-reference"]) | mine, SCHEMA)
    assert used_methods(config) >= {"flrml", "flrml-reference"}
    assert "mine" not in used_methods(config)


@pytest.mark.parametrize(
    ("given", "results", "experiment"),
    [
        ({}, "results/digits-r8", "digits-r8"),
        ({"results": "out/my study"}, "out/my study", "my-study"),
        ({"experiment": "mine"}, "results/digits-r8", "mine"),
    ],
)
def test_an_experiment_has_a_folder_of_its_own_and_is_named_after_it(given, results, experiment):
    config = resolve({"datasets": {"digits": {}, "r8": {}}} | given, SCHEMA)
    assert (config["results"], config["experiment"]) == (results, experiment)


def test_a_single_control_is_a_configuration():
    config = resolve({"datasets": {"digits": {}}, "methods": {"cosine": {}}}, SCHEMA)
    assert config["figures"] == {"pareto": {}}


def test_offline_keeps_what_needs_no_download():
    config = resolve(yaml.safe_load((ROOT / "config.yaml").read_text()) | {"offline": True}, SCHEMA)
    assert set(config["datasets"]) == {"shapes10-16", "shapes10-100", "digits"}
    assert config["figures"]["margin"]["datasets"] == ["shapes10-16"]
    assert config["figures"]["growth"]["n"]["dataset"] == "shapes10-16"


def test_the_given_configuration_is_left_alone():
    config = copy.deepcopy(TINY)
    resolve(config | {"offline": True}, SCHEMA)
    assert config == TINY


@pytest.mark.parametrize("results", ["/", ".", "..", "./", "x/..", "~", "~/results", str(Path.home())])
def test_results_do_not_go_where_other_things_are(results):
    with pytest.raises(ConfigError, match=r"^results: "):
        resolve(TINY | {"results": results}, SCHEMA)


def test_a_password_in_the_address_of_the_store_is_refused():
    with pytest.raises(ConfigError, match=r"tracking_uri: must not hold .* MLFLOW_TRACKING_PASSWORD") as error:
        resolve(TINY | {"tracking_uri": "http://me:secret@server:5000"}, SCHEMA)
    assert "secret" not in str(error.value)


OUTSIDE = [
    ("nowhere.Mine", r"^methods\.mine\.class: cannot import 'nowhere\.Mine'"),
    ("Mine", r"^methods\.mine\.class: cannot import 'Mine'"),
    ("sklearn.decomposition.PCX", r"^methods\.mine\.class: module 'sklearn\.decomposition' has no class 'PCX'"),
    ("sklearn.decomposition.fastica", r"has no class 'fastica'"),
    ("fractions.Fraction", r"^methods\.mine\.class: fractions\.Fraction has no method fit"),
]


@pytest.mark.parametrize(("path", "words"), OUTSIDE)
def test_a_wrong_path_of_a_class_from_outside_gets_one_line(path, words):
    with pytest.raises(ConfigError, match=words) as error:
        resolve(changed("methods/mine", {"class": path}), SCHEMA)
    assert "\n" not in str(error.value)


def test_a_class_from_outside_does_not_take_the_name_of_a_method():
    with pytest.raises(ConfigError, match=r"^methods\.kissme\.class: 'kissme' is a method of flrml"):
        resolve(changed("methods/kissme", {"class": "sklearn.decomposition.PCA"}), SCHEMA)


def test_a_configuration_that_aliases_blow_up_is_refused():
    bomb = ["a"]
    for _ in range(9):
        bomb = [bomb] * 9
    with pytest.raises(ConfigError, match="more than 100,000 values"):
        resolve(TINY | {"common": {"n_components": bomb}}, SCHEMA)
