import subprocess
import sys


def job(folder, body):
    """Run a job whose words go to job.log; return it when it has ended."""
    code = f"import os\nfrom flrml.pipeline.logs import logged\nwith logged('logs/job.log') as say:\n    {body}\n"
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)


def test_a_line_goes_to_log_and_terminal_the_rest_to_the_log(tmp_path):
    done = job(tmp_path, "print('detail', flush=True); os.system('echo of a child'); say('digits prepared')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "digits prepared\n")
    assert (tmp_path / "logs" / "job.log").read_text() == "detail\nof a child\ndigits prepared\n"


def test_an_error_is_one_line_on_the_terminal_and_whole_in_the_log(tmp_path):
    done = job(tmp_path, "raise ValueError('correct option train')")
    assert (done.returncode, done.stderr) == (1, "ValueError: correct option train (see logs/job.log)\n")
    assert "Traceback" in (tmp_path / "logs" / "job.log").read_text()
