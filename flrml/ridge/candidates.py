"""Parameters of RidgeFLRML that are tried: forms, candidates, and the settings that all candidates share."""

from dataclasses import dataclass

Basis = tuple[bool, float]  # candidates of the same basis are solved in the same subspace


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
    """Ridge as a multiple of the mean square of a row, form, power of the feature scale, directions and rounds."""

    ridge: float
    form: Form
    scale: float
    n_components: int
    rounds: int = 0

    @property
    def basis(self) -> Basis:
        """Whether the form is unsupervised, and the scale."""
        return self.form.unsupervised, self.scale


@dataclass(frozen=True)
class Settings:
    """Largest number of directions, intercept (None lets the form decide), and margin."""

    d: int
    fit_intercept: bool | None = None
    margin: float = 0.1
