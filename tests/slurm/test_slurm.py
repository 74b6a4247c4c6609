"""The tiny experiment through a real SLURM, by the profile that users get."""

import json
import os
import re
import subprocess
import time

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.slurm]
# The profile as it is, except that a test does not wait for a slow file system or for polite intervals.
PROFILE = ["--workflow-profile", "workflow/profiles/slurm", "--slurm-init-seconds-before-status-checks", "1"]
PROFILE += ["--seconds-between-status-checks", "1", "--latency-wait", "10"]


def queue(variables):
    """Jobs that SLURM knows: number, state, processors, memory and what the executor says of them."""
    command = ["squeue", "--states=all", "--noheader", "--format=%i|%T|%C|%m|%k"]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=True)
    return [line.split("|") for line in done.stdout.splitlines()]


def metrics(project):
    """Content of every metrics.json, times and memory apart, as bytes."""
    found = {path: content for path, content in project.numbers().items() if path.endswith("metrics.json")}
    return {path: json.dumps(content, sort_keys=True).encode() for path, content in found.items()}


def test_the_tiny_experiment_gives_the_same_metrics_as_on_one_machine(submitting, finished):
    before = {job[0] for job in queue(submitting.variables)}
    said = submitting.run(*PROFILE)
    assert len(metrics(finished)) == 6
    assert metrics(submitting) == metrics(finished)
    assert submitting.numbers() == finished.numbers()
    runs = submitting.runs()
    assert {run["status"] for run in runs} == {"FINISHED"}
    assert sorted(run["tags"]["flrml.key"] for run in runs) == sorted(
        run["tags"]["flrml.key"] for run in finished.runs()
    )

    jobs = [job for job in queue(submitting.variables) if job[0] not in before]
    assert {state for _, state, *_ in jobs} == {"COMPLETED"}
    submitted = [re.match(r"rule_([a-z]+)", job[4])[1] for job in jobs]
    assert set(submitted) == {"prepare", "decompose", "train", "evaluate", "growth", "sweeps"}
    assert submitted.count("sweeps") == 1, "four sweep points in one submission"
    assert "written: results/figures/margin.pdf" in said
    asked = {comment: (cpus, memory) for *_, cpus, memory, comment in jobs}
    assert {cpus for comment, (cpus, _) in asked.items() if comment.startswith("rule_train_")} == {"2"}
    assert asked["rule_evaluate_wildcards_digits_cosine_0"] == ("1", "1000M")
    assert asked["rule_evaluate_wildcards_shapes10-16_cosine_0"] == ("1", "1004M"), "larger data, more memory"


def test_a_cancelled_job_is_reported_and_the_rerun_completes(submitting):
    target = "results/svd/digits/plain.json"
    before = {job[0] for job in queue(submitting.variables)}
    log = submitting.folder / "cancelled.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            submitting.command(*PROFILE, "--retries", "0", "--", target),
            cwd=submitting.code,
            env=submitting.environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    cancelled = None
    while cancelled is None and process.poll() is None:
        running = [job for job in queue(submitting.variables) if job[1] == "RUNNING" and job[0] not in before]
        if running:
            cancelled = running[0][0]
            subprocess.run(["scancel", cancelled], env=submitting.environment, check=True)
        time.sleep(0.2)
    assert process.wait(120) != 0
    said = log.read_text()
    assert re.search(rf"SLURM-job '{cancelled}' failed, SLURM status is: 'CANCELLED", said), said
    assert not (submitting.work / target).exists()

    # The executor asks sacct where scontrol is slow; here it always does.
    submitting.run(*PROFILE, "--slurm-status-command", "sacct", "--", target)
    assert json.loads((submitting.work / target).read_text())["rank"] > 0
