"""What the README and the docs show, as written: code is run, commands are planned by the real Snakemake."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from flrml.methods import Method
from flrml.pipeline.config.resolve import resolve
from tests.pipeline.server import free_port, serving
from tests.workflow.project import ROOT, snakemake

TEXT = (ROOT / "README.md").read_text()
PAGES = (
    "README.md",
    "config/README.md",
    "docs/getting-started.md",
    "docs/own.md",
    "docs/pipeline.md",
    "docs/paper.md",
)
OWN = (ROOT / "docs/own.md").read_text()
SERVERS = (ROOT / "docs/mlflow.md").read_text()
ALL = "\n".join((ROOT / page).read_text() for page in PAGES)
SCHEMA = ROOT / "workflow/schemas/config.schema.yaml"
COMMANDS = sorted(set(re.findall(r"(?:^|`)(snakemake --[^`|\n]*[^`|\n ])", ALL, re.MULTILINE)))
TARGETS = sorted(set(re.findall(r"(?:^|`)make ([a-z-]+)", ALL, re.MULTILINE)))


def blocks(language, text):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("code", blocks("python", TEXT))
def test_code_runs(code, tmp_path):
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert float(done.stdout) > 0.95


def test_code_of_the_home_page_runs():
    (code,) = blocks("python", (ROOT / "docs/index.md").read_text())
    found: dict = {}
    exec(code, found)
    assert found["embedded"].shape == (len(found["y"]), found["model"].n_components)


def test_code_of_the_page_on_ridge_flrml_runs(capsys):
    (code,) = blocks("python", (ROOT / "docs/ridge.md").read_text())
    exec(code, {})
    assert "map_at_r" in capsys.readouterr().out


def test_stages_of_the_diagram_are_rules():
    diagram = (ROOT / "docs/stages.svg").read_text()
    rules = "".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk"))
    for stage in re.findall(r"^rule (\w+):", rules, re.MULTILINE):
        assert stage in diagram


@pytest.mark.parametrize("text", sorted(set(blocks("yaml", ALL))))
def test_configurations_are_whole(text):
    config = resolve(yaml.safe_load(text), SCHEMA)
    assert "flrml-ridge" in config["methods"]
    for dataset in config["datasets"].values():
        assert (ROOT / dataset["options"].get("train", "")).exists()


@pytest.mark.slow
@pytest.mark.parametrize("text", sorted(set(blocks("yaml", TEXT + OWN))))
def test_configurations_run(text, fresh):
    said = fresh.run("--directory", str(fresh.code), config=yaml.safe_load(text))
    assert "mean accuracy" in said or "seed 0  accuracy" in said
    assert "ended with" not in said


def test_the_method_of_the_docs_is_one(small_digits):
    found: dict = {}
    (code,) = (code for code in blocks("python", ALL) if "LowRankMetric" in code)
    exec(code, found)
    model = found["LeadingDirections"](3).fit(small_digits.X)
    assert model.transform(small_digits.X).shape == (len(small_digits.X), 3)
    (line,) = (code for code in blocks("python", ALL) if code.startswith("Method("))
    assert eval(line, {"Method": Method}).path.endswith(".LeadingDirections")


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_understood(command, fresh):
    arguments = command.removeprefix("snakemake ").split()
    prints = {"--list-rules", "--rulegraph"} & set(arguments)
    said = fresh.folder / "said.log"
    code = snakemake(
        [*arguments, *([] if prints else ["--dry-run", "--quiet"])], fresh.code, fresh.environment, said
    )
    assert code == 0, said.read_text()


@pytest.mark.parametrize("target", TARGETS)
def test_make_targets_exist(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", sorted(set(re.findall(r"\]\(([^)#]+)\)", TEXT))))
def test_links_lead_somewhere(page):
    assert (ROOT / page).exists()


def test_the_front_page_fits_on_one():
    assert len(TEXT.splitlines()) <= 150


@pytest.mark.slow
@pytest.mark.parametrize("number", range(2))
def test_servers_start_as_the_docs_say(number, tmp_path):
    command, port = [block for block in blocks("console", SERVERS) if "mlflow server" in block][number], free_port()
    (tmp_path / "auth.ini").write_text(blocks("ini", SERVERS)[0])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with serving(["bash", "-c", command.replace("5000", port)], tmp_path, port, PATH=path):
        assert (tmp_path / "mlflow.db").exists()
        assert (tmp_path / "auth.db").exists() == ("basic-auth" in command)


def test_the_documentation_is_whole(tmp_path):
    """Without the gallery's pictures, which `make docs` draws."""
    written = shutil.ignore_patterns("_build", "_generated", "gallery")
    for folder in ("docs", "examples", "workflow"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=written)
    for page in ROOT.glob("*.md"):
        shutil.copy(page, tmp_path)
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "dummy", "docs", "built"]
    command += ["-D", "plot_gallery=0", "-D", "suppress_warnings=image.not_readable"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
