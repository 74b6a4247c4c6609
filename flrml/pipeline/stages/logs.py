"""Send the output of a job to its log file, and single lines to the terminal."""

import os
import sys
import traceback
from collections.abc import Callable, Iterator
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


def tell(line: str) -> None:
    """Print a line where Snakemake's logger may show its status."""
    print((CLEAR if sys.stderr.isatty() else "") + line, file=sys.stderr, flush=True)


def in_a_line(error: Exception) -> str:
    """Return what an error says in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
