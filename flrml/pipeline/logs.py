"""Send the output of a job to its log file, and single lines to the terminal."""

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def logged(path: str | os.PathLike) -> Iterator[Callable[[str], None]]:
    """Send output and errors to a log file; give a function that prints a line there and on the terminal.

    An exception is written to the log in full and to the terminal in one line, and ends the job.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    terminal = os.dup(2)
    with open(path, "w", buffering=1) as log:
        kept = os.dup(1)
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)

        def say(line: str) -> None:
            print(line, flush=True)
            os.write(terminal, f"{line}\n".encode())

        try:
            yield say
        except Exception as error:
            traceback.print_exc()
            os.write(terminal, f"{type(error).__name__}: {error} (see {path})\n".encode())
            raise SystemExit(1) from None
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(kept, 1)
            os.dup2(terminal, 2)
            os.close(kept)
            os.close(terminal)
