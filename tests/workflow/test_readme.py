"""What the README and the docs show, as written: code is run, commands are planned by the real Snakemake."""

import re
import subprocess
import sys

import pytest
import yaml

from flrml.pipeline.config import resolve
from tests.workflow.project import ROOT

TEXT = (ROOT / "README.md").read_text()
PAGES = (
    "README.md",
    "config/README.md",
    "docs/getting-started.md",
    "docs/own.md",
    "docs/pipeline.md",
    "docs/paper.md",
)
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


@pytest.mark.parametrize("text", sorted(set(blocks("yaml", ALL))))
def test_configurations_are_whole(text):
    config = resolve(yaml.safe_load(text), SCHEMA)
    assert "flrml-ridge" in config["methods"]
    for dataset in config["datasets"].values():
        assert (ROOT / dataset["options"].get("train", "")).exists()


def test_the_method_of_the_docs_is_one(small_digits):
    found: dict = {}
    (code,) = (code for code in blocks("python", ALL) if "LowRankMetric" in code)
    exec(code, found)
    model = found["LeadingDirections"](3).fit(small_digits.X)
    assert model.transform(small_digits.X).shape == (len(small_digits.X), 3)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_understood(command, fresh):
    arguments = command.removeprefix("snakemake ").split()
    prints = {"--list-rules", "--rulegraph"} & set(arguments)
    planned = [sys.executable, "-m", "snakemake", *arguments, *([] if prints else ["--dry-run", "--quiet"])]
    subprocess.run(planned, cwd=fresh.code, env=fresh.environment, check=True, capture_output=True, timeout=120)


@pytest.mark.parametrize("target", TARGETS)
def test_make_targets_exist(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", sorted(set(re.findall(r"\]\(([^)#]+)\)", TEXT))))
def test_links_lead_somewhere(page):
    assert (ROOT / page).exists()


def test_the_front_page_fits_on_one():
    assert len(TEXT.splitlines()) <= 150
