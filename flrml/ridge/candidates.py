"""Parameters of RidgeFLRML that are tried: forms, candidates, and the settings that all candidates share."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Form:
    """The shares ω (within) and β (local) that define a closed form."""

    within: float
    local: float

    @property
    def unsupervised(self) -> bool:
        """Whether the form uses no labels, so that the map keeps the geometry of X."""
        return self.local == 1


@dataclass(frozen=True)
class Candidate:
    """Ridge as a multiple of the mean square of a row, form and number of rounds."""

    ridge: float
    form: Form
    rounds: int = 0


@dataclass(frozen=True)
class Settings:
    """Number of directions, power of the feature scale, intercept and margin; None lets the form decide."""

    d: int
    scale: float | None = None
    fit_intercept: bool | None = None
    margin: float = 0.1
