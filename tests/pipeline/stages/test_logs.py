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


def test_an_error_is_one_line_on_the_terminal_and_whole_in_the_log(tmp_path):
    done = job(tmp_path, "raise ValueError('correct option train')")
    assert (done.returncode, done.stderr) == (1, "ValueError: correct option train (see logs/job.log)\n")
    assert "Traceback" in (tmp_path / "logs" / "job.log").read_text()


def test_the_end_of_a_run_says_where_its_results_are(tmp_path):
    drawn = [tmp_path / "figures/margin.pdf", tmp_path / "figures/pareto.pdf", tmp_path / "tables/summary.md"]
    for path in (drawn[0], drawn[2]):
        path.parent.mkdir()
        path.touch()
    (tmp_path / "digits.json").write_text(json.dumps({"keys": ["a", "b"]}))
    first, second = summary_lines("results", drawn, [tmp_path / "digits.json", tmp_path / "missing.json"])
    assert first == "1 figures and 1 tables: results/figures, results/tables"
    assert second.startswith("2 runs in MLflow: open them with `make ui`")
    assert summary_lines("results", [], []) == []
