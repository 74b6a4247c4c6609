"""What the README shows, as written: code is run, commands are planned by the real Snakemake."""

import re
import subprocess
import sys

import pytest
import yaml

from flrml.pipeline.config import resolve
from tests.workflow.project import ROOT

TEXT = (ROOT / "README.md").read_text()
SCHEMA = ROOT / "workflow/schemas/config.schema.yaml"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"))
def test_code_runs(code, tmp_path):
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert float(done.stdout) > 0.95


@pytest.mark.parametrize("text", blocks("yaml"))
def test_configurations_are_whole(text):
    config = resolve(yaml.safe_load(text), SCHEMA)
    assert list(config["datasets"]) == ["flowers"]
    assert {"flrml-ridge", "cosine"} <= set(config["methods"])
    assert (ROOT / config["datasets"]["flowers"]["options"]["train"]).exists()


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`(snakemake [^`]*)`", TEXT))))
def test_commands_are_understood(command, fresh):
    arguments = command.removeprefix("snakemake ").split()
    planned = [sys.executable, "-m", "snakemake", *arguments, "--dry-run", "--quiet"]
    subprocess.run(planned, cwd=fresh.code, env=fresh.environment, check=True, capture_output=True, timeout=120)


@pytest.mark.parametrize("target", sorted(set(re.findall(r"(?:^|`)make ([a-z-]+)", TEXT, re.MULTILINE))))
def test_make_targets_exist(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", sorted(set(re.findall(r"\]\(([^)#]+)\)", TEXT))))
def test_links_lead_somewhere(page):
    assert (ROOT / page).exists()


def test_the_front_page_fits_on_one():
    assert len(TEXT.splitlines()) <= 150
