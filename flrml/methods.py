"""The one list of methods: what each is called, what it takes and with which parameters it is compared.

A new method is one file and one line here. ``parameters`` holds what the comparison sets: the variant, and every
hyper-parameter that a method's publication leaves open. Those are chosen once, from coarse grids, by the mean 5-NN
accuracy on validation splits (a fifth of the training part) of r8 and mnist5k at SVD rank 500 and 100 directions;
numbers of iterations are round ones and not searched. The classes' defaults are the same.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, Literal

from sklearn.base import BaseEstimator

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
from flrml.minibatch import MFLRML


@dataclass(frozen=True)
class Method:
    """A method as the pipeline knows it.

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
    supervision : {"labels", "triplets", "none"}
        What it learns from. Methods that take triplets are given labels too; SCML needs both.
    uses_spectrum : bool
        Whether ``fit`` takes a ``spectrum``.
    centred : bool
        Whether that spectrum must be the one of data with each sample's mean taken off.
    uses_groups : bool
        Whether ``fit`` takes ``groups``, the rows that show the same object.
    control : bool
        Whether it stands beside the comparison instead of in it: controls and extras.
    quick : bool
        Whether it ends within seconds on some thousand samples of rank 500.
    paper : str or None
        Its name in the paper's tables.
    parameters : dict
        Parameters that the comparison sets.
    """

    name: str
    label: str
    estimator: type[BaseEstimator]
    table: Literal[3, 4]
    supervision: Literal["labels", "triplets", "none"]
    uses_spectrum: bool = False
    centred: bool = False
    uses_groups: bool = False
    control: bool = False
    quick: bool = True
    paper: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def neighbor_metric(self) -> str:
        """The method's own neighbour rule: "cosine", "euclidean" or "bilinear"."""
        return getattr(self.estimator, "neighbor_metric", "cosine")

    @property
    def accepts(self) -> tuple[str, ...]:
        """Names of the estimator's parameters."""
        return tuple(signature(self.estimator).parameters)

    def fit_arguments(self, *, triplets: Any = None, spectrum: Any = None, groups: Any = None) -> dict[str, Any]:
        """Of what is at hand, the keyword arguments that ``fit(X, y, …)`` of this method takes."""
        arguments = {}
        if self.supervision == "triplets":
            arguments["triplets"] = triplets
        if self.uses_spectrum:
            arguments["spectrum"] = spectrum
        if self.uses_groups:
            arguments["groups"] = groups
        return arguments


def _methods() -> Iterable[Method]:
    svd: dict[str, Any] = {"table": 3, "uses_spectrum": True}
    raw: dict[str, Any] = {"table": 4}
    paper, reference, ridge = ({"variant": name} for name in ("paper", "reference", "ridge"))
    yield Method("flrml", "FLRML", FLRML, supervision="triplets", paper="FLRML", parameters=paper, **svd)
    yield Method(
        "flrml-reference",
        "FLRML (reference)",
        FLRML,
        supervision="triplets",
        centred=True,
        paper="FLRML",
        parameters=reference,
        **svd,
    )
    yield Method(
        "flrml-ridge",
        "FLRML (ridge)",
        FLRML,
        supervision="labels",
        uses_groups=True,
        parameters=ridge,
        **svd,
    )
    yield Method("mflrml", "M-FLRML", MFLRML, supervision="triplets", paper="M-FLRML", parameters=paper, **raw)
    yield Method(
        "mflrml-reference",
        "M-FLRML (reference)",
        MFLRML,
        supervision="triplets",
        paper="M-FLRML",
        parameters=reference,
        **raw,
    )
    yield Method(
        "mflrml-ridge",
        "M-FLRML (ridge)",
        MFLRML,
        supervision="labels",
        uses_groups=True,
        parameters=ridge,
        **raw,
    )
    yield Method(
        "oasis", "OASIS", OASIS, supervision="triplets", paper="OASIS", parameters={"C": 1e-4, "n_passes": 1}, **svd
    )
    yield Method(
        "kissme",
        "KISSME",
        KISSME,
        supervision="triplets",
        paper="KISSME",
        parameters={"ridge": 1e-2, "max_rank": 100},
        **svd,
    )
    yield Method("rmml", "RMML", RMML, supervision="triplets", paper="RMML", parameters={"lam": 1e-2}, **svd)
    yield Method(
        "lmnn",
        "LMNN",
        LMNN,
        supervision="labels",
        quick=False,
        paper="LMNN",
        parameters={"n_targets": 3, "n_impostors": 50, "max_iter": 50},
        **svd,
    )
    yield Method(
        "lrsml",
        "LRSML",
        LRSML,
        supervision="triplets",
        quick=False,
        paper="LRSML",
        parameters={"alpha": 1e-4, "rho": 1.0, "max_iter": 60, "max_rank": 500},
        **svd,
    )
    yield Method(
        "frml",
        "FRML",
        FRML,
        supervision="labels",
        quick=False,
        paper="FRML",
        parameters={"lam": 1e-6, "n_neighbors": 5},
        **svd,
    )
    yield Method(
        "scml",
        "SCML",
        SCML,
        supervision="triplets",
        quick=False,
        paper="SCML",
        parameters={"shrinkage": 0.1},
        **raw,
    )
    yield Method(
        "drml",
        "DRML",
        DRML,
        supervision="triplets",
        quick=False,
        paper="DRML",
        parameters={"lam": 1e-3, "max_iter": 30},
        **raw,
    )
    yield Method(
        "sgdinc",
        "SGDINC",
        SGDINC,
        supervision="triplets",
        quick=False,
        paper="SGDINC",
        parameters={"eta": 100.0, "lam": 1e-4, "n_steps": 300},
        **raw,
    )
    yield Method("cosine", "cosine on X", CosineControl, supervision="none", control=True, **raw)
    yield Method("svd", "top SVD", SVDControl, supervision="none", control=True, **svd)
    whiten = {"whiten": True}
    yield Method(
        "whitened-svd",
        "top SVD, whitened",
        SVDControl,
        supervision="none",
        control=True,
        parameters=whiten,
        **svd,
    )
    yield Method("lda", "LDA", LDA, supervision="labels", control=True, parameters={"shrinkage": 0.3}, **svd)
    yield Method("lda-tuned", "LDA, tuned", TunedLDA, supervision="labels", control=True, uses_groups=True, **svd)
    yield Method(
        "nca",
        "NCA",
        NCA,
        supervision="labels",
        control=True,
        quick=False,
        parameters={"scale": 3.0, "max_iter": 15, "max_rank": 200},
        **svd,
    )


METHODS: dict[str, Method] = {method.name: method for method in _methods()}


def build(name: str, **overrides: Any) -> Any:
    """Make the estimator of a method.

    Parameters
    ----------
    name : str
        Key in METHODS.
    **overrides
        Parameters of the estimator that differ from those of the comparison.

    Examples
    --------
    >>> build("flrml-reference", n_components=20)
    FLRML(n_components=20, variant='reference')
    """
    if name not in METHODS:
        raise ValueError(f"unknown method {name!r}{_hint(name, METHODS)}; there are: {', '.join(METHODS)}")
    method = METHODS[name]
    for parameter in overrides:
        if parameter not in method.accepts:
            raise ValueError(
                f"method {name!r} has no parameter {parameter!r}{_hint(parameter, method.accepts)}; "
                f"it has: {', '.join(method.accepts)}"
            )
    return method.estimator(**(method.parameters | overrides))


def _hint(word: str, choices: Iterable[str]) -> str:
    close = difflib.get_close_matches(str(word), list(choices), 1)
    return f" (did you mean {close[0]!r}?)" if close else ""
