"""The registry of methods: one line each.

A new method is one file and one line here. Hyper-parameters that a method's publication leaves open are defaults of
its class, chosen once from coarse grids by the mean 5-NN accuracy on validation splits (a fifth of the training
part) of r8 and mnist5k at SVD rank 500 and 100 directions; numbers of iterations are round ones and not searched.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal

from flrml.exceptions import suggest

if TYPE_CHECKING:
    from flrml.metric import LowRankMetric


@dataclass(frozen=True)
class Method:
    """A method of the pipeline; the signature of ``fit`` defines what it takes.

    Attributes
    ----------
    name : str
        Key in the configuration.
    title : str
        Name in tables and figures.
    path : str
        Module and class of its estimator; a leading dot stands for ``flrml.``.
    table : {3, 4}
        Table of the paper that it belongs to: 3 for methods that start from an SVD, 4 for those on the data.
    paper : str or None
        Its name in the paper's tables.
    control : bool
        Whether it is a control or an extra, not part of the comparison.
    takes_labels : bool
        Whether it is given labels although it could take triplets.
    parameters : dict
        Parameters that differ from the defaults of its class.
    """

    name: str
    title: str
    path: str
    table: Literal[3, 4]
    paper: str | None = None
    control: bool = False
    takes_labels: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def estimator(self) -> "type[LowRankMetric]":
        """Its class, imported on first use, so that a training imports only its own method."""
        module, _, name = self.path.rpartition(".")
        return getattr(import_module(module, "flrml"), name)

    @property
    def metric(self) -> str:
        """How its embedded rows are compared: "cosine", "euclidean" or "bilinear"."""
        return getattr(self.estimator, "metric", "cosine")

    @property
    def accepts(self) -> tuple[str, ...]:
        """Names of the estimator's parameters."""
        return tuple(signature(self.estimator).parameters)

    @property
    def uses_spectrum(self) -> bool:
        """Whether ``fit`` takes a ``spectrum``."""
        return "spectrum" in signature(self.estimator.fit).parameters

    @property
    def spectrum_kind(self) -> Literal["plain", "centered"]:
        """The spectrum that it takes: of the rows as they are, or with the mean of each subtracted."""
        return "plain" if getattr(self.estimator, "decomposed_rows", None) is None else "centered"

    @property
    def takes_dask(self) -> bool:
        """Whether ``fit`` takes dask arrays."""
        return getattr(self.estimator, "takes_dask", False)

    @property
    def training_entry(self) -> dict[str, Any]:
        """What a training depends on: another class, other parameters or other input train it again."""
        return {"path": self.path, "takes_labels": self.takes_labels, "parameters": self.parameters}

    def fit_arguments(self, *, triplets: Any = None, spectrum: Any = None, groups: Any = None) -> dict[str, Any]:
        """Return those of the given keyword arguments that ``fit(X, y, …)`` of this method takes."""
        given = {"triplets": triplets, "spectrum": spectrum, "groups": groups}
        if self.takes_labels:
            del given["triplets"]
        taken = signature(self.estimator.fit).parameters
        return {name: value for name, value in given.items() if name in taken}


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("flrml", "FLRML", ".flrml.FLRML", 3, paper="FLRML"),
        Method("flrml-reference", "FLRML (reference)", ".reference.ReferenceFLRML", 3, paper="FLRML"),
        Method("flrml-ridge", "RidgeFLRML", ".ridge.RidgeFLRML", 4, takes_labels=True),
        Method("mflrml", "M-FLRML", ".mflrml.MFLRML", 4, paper="M-FLRML"),
        Method("mflrml-reference", "M-FLRML (reference)", ".reference.ReferenceMFLRML", 4, paper="M-FLRML"),
        Method("oasis", "OASIS", ".baselines.oasis.OASIS", 3, paper="OASIS"),
        Method("kissme", "KISSME", ".baselines.kissme.KISSME", 3, paper="KISSME"),
        Method("rmml", "RMML", ".baselines.rmml.RMML", 3, paper="RMML"),
        Method("lmnn", "LMNN", ".baselines.lmnn.LMNN", 3, paper="LMNN"),
        Method("lrsml", "LRSML", ".baselines.lrsml.LRSML", 3, paper="LRSML"),
        Method("frml", "FRML", ".baselines.frml.FRML", 3, paper="FRML"),
        Method("scml", "SCML", ".baselines.scml.SCML", 4, paper="SCML"),
        Method("drml", "DRML", ".baselines.drml.DRML", 4, paper="DRML"),
        Method("sgdinc", "SGDINC", ".baselines.sgdinc.SGDINC", 4, paper="SGDINC"),
        Method("cosine", "cosine on X", ".baselines.controls.CosineControl", 4, control=True),
        Method("svd", "top SVD", ".baselines.controls.SVDControl", 3, control=True),
        Method(
            "whitened-svd",
            "top SVD, whitened",
            ".baselines.controls.SVDControl",
            3,
            control=True,
            parameters={"whiten": True},
        ),
        Method("lda", "LDA", ".baselines.lda.LDA", 3, control=True),
        Method("lda-tuned", "LDA, tuned", ".baselines.lda.TunedLDA", 3, control=True),
        Method(
            "ridge-classifier", "RidgeClassifier", ".baselines.classifiers.RidgeClassifierControl", 4, control=True
        ),
        Method("logistic", "LogisticRegression", ".baselines.classifiers.LogisticControl", 4, control=True),
        Method("nca", "NCA", ".baselines.nca.NCA", 3, control=True),
    )
}


def build(name: str, **overrides: Any) -> Any:
    """Build the estimator of a method.

    Parameters
    ----------
    name : str
        Key in METHODS.
    **overrides
        Parameters of the estimator that differ from its defaults.

    Returns
    -------
    estimator
        Not fitted.

    Examples
    --------
    >>> build("flrml-reference", n_components=20)
    ReferenceFLRML(n_components=20)
    """
    if name not in METHODS:
        raise ValueError(f"unknown method {name!r}{suggest(name, METHODS)}; choose from {', '.join(METHODS)}")
    method = METHODS[name]
    for parameter in overrides:
        if parameter not in method.accepts:
            hint = f"{suggest(parameter, method.accepts)}; choose from {', '.join(method.accepts)}"
            raise ValueError(f"method {name!r} has no parameter {parameter!r}{hint}")
    return method.estimator(**(method.parameters | overrides))


def add_methods(configured: Mapping[str, Mapping[str, Any]]) -> None:
    """Register the classes from outside flrml: each entry of a resolved configuration that names a ``class``."""
    for entry in configured.values():
        if "class" in entry:
            name = entry["method"]
            METHODS[name] = Method(name, name, entry["class"], 4)
