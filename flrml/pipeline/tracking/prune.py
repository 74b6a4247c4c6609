"""Delete earlier runs of a configuration from MLflow: ``python -m flrml.pipeline.tracking.prune config.yaml``."""

import sys

from flrml.pipeline.tracking.ui import open_tracker


def main(config: str) -> int:
    """Delete every run that is not the newest of its key, with its models and artifacts; print the number."""
    tracker = open_tracker(config)
    deleted = tracker.prune()
    print(f"{deleted} earlier runs deleted, {len(tracker.runs())} newest ones kept")
    if not tracker.store.local:
        print("their artifacts are on the server: delete them there with `mlflow gc`")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
