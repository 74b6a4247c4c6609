"""Commands of the pipeline: ``python -m flrml.pipeline command …``, most of them targets of the Makefile.

``ui port [config]``, ``prune yes [config]`` and ``report report.html config`` open the runs in MLflow;
``predict model input output`` and ``embeddings run folder [float16]`` use a trained model; ``follow results`` logs
results while jobs run.
"""

import sys
from importlib import import_module

from flrml.exceptions import TrackingError
from flrml.pipeline.stages.logs import in_a_line, tell

# Module in this package and function of every command; imported when needed, as mlflow takes seconds.
COMMANDS = {
    "follow": "tracking.experiment.follow",
    "ui": "tracking.ui.serve",
    "prune": "tracking.ui.prune",
    "report": "tracking.ui.add_report",
    "predict": "serving.predict.predict",
    "embeddings": "serving.search_index.write_embeddings",
}


def main(command: str = "", *arguments: str) -> int:
    """Run a command; an error is one line."""
    try:
        if command not in COMMANDS:
            raise ValueError(f"unknown command {command!r}; choose from {', '.join(COMMANDS)}")
        module, _, function = COMMANDS[command].rpartition(".")
        return int(getattr(import_module(f"flrml.pipeline.{module}"), function)(*arguments) or 0)
    except (TrackingError, ValueError, OSError) as error:  # which say what to do
        tell(" ".join(str(error).split()))
    except Exception as error:
        tell(in_a_line(error))
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
