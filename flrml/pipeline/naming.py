"""Name the files of a run and the sweeps: what the stages write, and tracking and report read."""

from dataclasses import dataclass

# Files of a run, in results/runs/<data set>/<method>/seed<seed>/.
MODEL, TRAINING, METRICS = "model.npz", "training.json", "metrics.json"
PREDICTIONS = "predictions.csv"  # of the test rows
POINT = "point.json"  # of a sweep, in results/sweeps/<sweep>/<data set>/<method>/<value>/


@dataclass(frozen=True)
class Sweep:
    """A figure that sweeps one parameter.

    Attributes
    ----------
    parameter : str
        The parameter of the method.
    values : str
        Key of its values in the figure's settings.
    parse : type
        Type of the values.
    along : bool
        Whether accuracy is measured along the mini-batches, or only at the end.
    retrieval : bool
        Whether retrieval is scored too.
    """

    parameter: str
    values: str
    parse: type
    along: bool = False
    retrieval: bool = False


SWEEPS = {
    "margin": Sweep("margin_ratio", "ratios", float),
    "batches": Sweep("batch_triplets", "sizes", int, along=True),
    "directions": Sweep("n_components", "sizes", int, retrieval=True),
}
