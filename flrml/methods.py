"""The registry of methods: one line each.

A new method is one file and one line here. Hyper-parameters that a method's publication leaves open are defaults of
its class, chosen once from coarse grids by the mean 5-NN accuracy on validation splits (a fifth of the training
part) of r8 and mnist5k at SVD rank 500 and 100 directions; numbers of iterations are round ones and not searched.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, Literal

from flrml.baselines.classifiers import LogisticControl, RidgeClassifierControl
from flrml.baselines.controls import CosineControl, SVDControl
from flrml.baselines.drml import DRML
from flrml.baselines.frml import FRML
from flrml.baselines.kissme import KISSME
from flrml.baselines.lda import LDA, TunedLDA
from flrml.baselines.lmnn import LMNN
from flrml.baselines.lrsml import LRSML
from flrml.baselines.nca import NCA
from flrml.baselines.oasis import OASIS
from flrml.baselines.rmml import RMML
from flrml.baselines.scml import SCML
from flrml.baselines.sgdinc import SGDINC
from flrml.estimators import FLRML
from flrml.metric import LowRankMetric
from flrml.minibatch import MFLRML
from flrml.reference import ReferenceFLRML, ReferenceMFLRML
from flrml.ridge import RidgeFLRML


@dataclass(frozen=True)
class Method:
    """A method as the pipeline knows it; the signature of ``fit`` says what it takes.

    Attributes
    ----------
    name : str
        Key in the configuration.
    label : str
        Name in tables and figures.
    estimator : type
        Its class.
    table : {3, 4}
        Table of the paper it belongs to: 3 for methods that start from an SVD, 4 for those on the data itself.
    paper : str or None
        Its name in the paper's tables.
    control : bool
        Whether it stands beside the comparison instead of in it: controls and extras.
    labels : bool
        Whether it learns from labels although it could take triplets.
    parameters : dict
        Parameters that differ from the defaults of its class.
    """

    name: str
    label: str
    estimator: type[LowRankMetric]
    table: Literal[3, 4]
    paper: str | None = None
    control: bool = False
    labels: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def neighbor_metric(self) -> str:
        """How its embedded rows are compared: "cosine", "euclidean" or "bilinear"."""
        return self.estimator.neighbor_metric

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
        return issubclass(self.estimator, FLRML | MFLRML | RidgeFLRML)

    def fit_arguments(self, *, triplets: Any = None, spectrum: Any = None, groups: Any = None) -> dict[str, Any]:
        """Return those of the given keyword arguments that ``fit(X, y, …)`` of this method takes."""
        given = {"triplets": triplets, "spectrum": spectrum, "groups": groups}
        if self.labels:
            del given["triplets"]
        taken = signature(self.estimator.fit).parameters
        return {name: value for name, value in given.items() if name in taken}


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("flrml", "FLRML", FLRML, 3, paper="FLRML"),
        Method("flrml-reference", "FLRML (reference)", ReferenceFLRML, 3, paper="FLRML"),
        Method("flrml-ridge", "RidgeFLRML", RidgeFLRML, 4, labels=True),
        Method("mflrml", "M-FLRML", MFLRML, 4, paper="M-FLRML"),
        Method("mflrml-reference", "M-FLRML (reference)", ReferenceMFLRML, 4, paper="M-FLRML"),
        Method("oasis", "OASIS", OASIS, 3, paper="OASIS"),
        Method("kissme", "KISSME", KISSME, 3, paper="KISSME"),
        Method("rmml", "RMML", RMML, 3, paper="RMML"),
        Method("lmnn", "LMNN", LMNN, 3, paper="LMNN"),
        Method("lrsml", "LRSML", LRSML, 3, paper="LRSML"),
        Method("frml", "FRML", FRML, 3, paper="FRML"),
        Method("scml", "SCML", SCML, 4, paper="SCML"),
        Method("drml", "DRML", DRML, 4, paper="DRML"),
        Method("sgdinc", "SGDINC", SGDINC, 4, paper="SGDINC"),
        Method("cosine", "cosine on X", CosineControl, 4, control=True),
        Method("svd", "top SVD", SVDControl, 3, control=True),
        Method("whitened-svd", "top SVD, whitened", SVDControl, 3, control=True, parameters={"whiten": True}),
        Method("lda", "LDA", LDA, 3, control=True),
        Method("lda-tuned", "LDA, tuned", TunedLDA, 3, control=True),
        Method("ridge-classifier", "RidgeClassifier", RidgeClassifierControl, 4, control=True),
        Method("logistic", "LogisticRegression", LogisticControl, 4, control=True),
        Method("nca", "NCA", NCA, 3, control=True),
    )
}
# Parameters that are methods of their own, or have another name.
RENAMED = {
    "variant": "choose the method flrml, flrml-reference, flrml-ridge, or one of the mflrml methods instead",
    "margin_ratio": "this method has `margin`, the margin of the cosine",
}


def build(name: str, **overrides: Any) -> Any:
    """Make the estimator of a method.

    Parameters
    ----------
    name : str
        Key in METHODS.
    **overrides
        Parameters of the estimator that differ from its defaults.

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
            remedy = RENAMED.get(parameter, f"choose from {', '.join(method.accepts)}")
            raise ValueError(
                f"method {name!r} has no parameter {parameter!r}{suggest(parameter, method.accepts)}; {remedy}"
            )
    return method.estimator(**(method.parameters | overrides))


def suggest(word: str, choices: Iterable[str]) -> str:
    """Return a hint at the choice that is closest to a misspelt word, or nothing."""
    close = difflib.get_close_matches(str(word), list(choices), 1)
    return f" (did you mean {close[0]!r}?)" if close else ""
