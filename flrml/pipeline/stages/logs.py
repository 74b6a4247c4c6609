"""Send the output of a job to its log file, and single lines to the terminal."""

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

# Takes away the status line that Snakemake's logger keeps on a terminal.
CLEAR = "\r\x1b[2K"


@contextmanager
def logged(path: str | os.PathLike) -> Iterator[Callable[[str], None]]:
    """Send output and errors to a log file; give a function that prints a line there and on the terminal.

    An exception is written to the log, whose last line Snakemake's logger shows, and ends the job.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    terminal = os.dup(2)
    clear = CLEAR if os.isatty(terminal) else ""
    with open(path, "w", buffering=1) as log:
        kept = os.dup(1)
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)

        def say(line: str) -> None:
            print(line, flush=True)
            os.write(terminal, f"{clear}{line}\n".encode())

        try:
            yield say
        except Exception:
            traceback.print_exc()
            raise SystemExit(1) from None
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(kept, 1)
            os.dup2(terminal, 2)
            os.close(kept)
            os.close(terminal)


def summary_lines(results: str, drawn: Iterable[str]) -> list[str]:
    """Return what a person wants to know at the end of a run: where figures, tables and runs are.

    Parameters
    ----------
    results : str
        Folder of the results.
    drawn : iterable of paths
        A file of every figure and table; those that exist count.
    """
    found = [Path(path).parent.name for path in drawn if Path(path).exists()]
    logged = Path(results) / "mlflow.json"
    lines = []
    if found:
        counts = ((found.count(f"{kind}s"), kind) for kind in ("figure", "table"))
        count = " and ".join(f"{number} {kind}{'s' * (number != 1)}" for number, kind in counts)
        lines.append(f"{count}: {results}/figures, {results}/tables")
    if logged.exists():
        runs = json.loads(logged.read_text())["runs"]
        lines.append(f"{runs} runs in MLflow: open them with `make ui`, http://127.0.0.1:5000")
    return lines
