import json
import subprocess
import sys

from flrml.pipeline.stages.logs import summary_lines


def job(folder, body):
    """Run a job whose words go to job.log; return it when it has ended."""
    head = "import os\nfrom flrml.pipeline.stages.logs import logged\n"
    code = f"{head}with logged('logs/job.log') as say:\n    {body}\n"
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)


def test_a_line_goes_to_log_and_terminal_the_rest_to_the_log(tmp_path):
    done = job(tmp_path, "print('detail', flush=True); os.system('echo of a child'); say('digits prepared')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "digits prepared\n")
    assert (tmp_path / "logs" / "job.log").read_text() == "detail\nof a child\ndigits prepared\n"


def test_an_error_is_in_the_log_for_snakemakes_logger_to_show(tmp_path):
    done = job(tmp_path, "raise ValueError('correct option train')")
    assert (done.returncode, done.stderr) == (1, "")
    log = (tmp_path / "logs" / "job.log").read_text()
    assert log.startswith("Traceback")
    assert log.endswith("ValueError: correct option train\n")


def test_the_end_of_a_run_says_where_its_results_are(tmp_path):
    drawn = [tmp_path / "figures/margin.pdf", tmp_path / "figures/pareto.pdf", tmp_path / "tables/summary.md"]
    for path in (drawn[0], drawn[2]):
        path.parent.mkdir()
        path.touch()
    (tmp_path / "mlflow.json").write_text(json.dumps({"runs": 2}))
    first, second = summary_lines(str(tmp_path), drawn)
    assert first == f"1 figure and 1 table: {tmp_path}/figures, {tmp_path}/tables"
    assert second.startswith("2 runs in MLflow: open them with `make ui`")
    assert summary_lines("results", []) == []
