import subprocess
import sys


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
