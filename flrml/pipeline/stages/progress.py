"""Report the progress of a training to a small file, which another process follows.

A line is a JSON object. The first one names the run, under ``"run"``. Each of the others holds ``"metrics"``, with
an optional ``"step"``, or the ``"state"`` that the training has reached: ``"trained"``, ``"failed"`` or
``"evaluated"``.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

FILE = "progress.jsonl"


class Progress:
    """The progress file of one training.

    Parameters
    ----------
    folder : path
        Folder of the training's results. Without a file in it, nothing is reported.
    """

    def __init__(self, folder: str | os.PathLike):
        self.path = Path(folder) / FILE

    def start(self, key: str, name: str, run: dict[str, Any], follow: dict[str, str]) -> None:
        """Start a new file.

        Parameters
        ----------
        key, name : str
            Key and name of the run of MLflow.
        run : dict
            ``dataset``, ``method`` and the time at which it ``started``.
        follow : dict
            ``experiment`` and ``tracking_uri`` of the run.
        """
        tags = {"dataset": run["dataset"], "method": run["method"]}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.unlink(missing_ok=True)
        first = {"key": key, "name": name, "started": run["started"], "tags": tags, **follow}
        self._append({"run": first}, os.O_CREAT)

    def metrics(self, step: int | None = None, **values: float) -> None:
        """Report metrics, at a step of the training or at its end."""
        content: dict[str, Any] = {"metrics": values, "time": time.time()}
        self._append(content if step is None else content | {"step": step})

    def end(self, state: str, reason: str | None = None) -> None:
        """Report how the training ended."""
        self._append({"state": state, "reason": reason, "time": time.time()})

    def _append(self, content: dict[str, Any], flags: int = 0) -> None:
        """Write a line in one piece, so that a reader or a kill never cuts it."""
        try:
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | flags, 0o666)
        except FileNotFoundError:
            return  # a result of a training that was not followed
        try:
            os.write(file, (json.dumps(content) + "\n").encode())
        finally:
            os.close(file)
