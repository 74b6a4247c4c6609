"""The limits and thresholds of the parameter search of RidgeFLRML."""

from dataclasses import dataclass

from flrml.folds import ENOUGH_VALIDATION_GROUPS, MAX_VALIDATION_ROWS
from flrml.ridge.candidates import Form

DISCRIMINANTS = Form(within=0.97, local=0.1)
UNSUPERVISED = Form(within=0.0, local=1.0)
NEW_CLASSES = Form(within=0.9, local=0.6)


@dataclass(frozen=True)
class SearchPolicy:
    """Limits and thresholds of the parameter search of :class:`flrml.RidgeFLRML`.

    The defaults were chosen once, on validation splits of the training parts of text, image and tabular data.

    Attributes
    ----------
    discriminants : Form
        The supervised form.
    unsupervised : Form
        The form without labels, which keeps the geometry of X.
    scales : tuple of float
        Powers of the feature scale that are tried for discriminants, the simplest first.
    new_classes : Form
        The form with which ridge and scale are chosen for new classes.
    new_classes_scale : float
        The scale from which the search for new classes starts, one of ``scales``.
    local : tuple of float
        Values that are tried for new classes with this ridge and scale.
    max_components : int
        Largest number of directions with ``n_components="auto"``.
    rounds, max_rounds : int
        Number of rounds of the unsupervised form, and of discriminants that are tried with rounds; up to
        ``max_rounds`` are made if the data have more groups than ``max_search_rows``.
    max_search_rows : int
        Largest number of rows to search with; with more rows, a random sample is searched.
    enough_validation_groups : int
        Folds of the groups are held out in turn until this many were.
    max_validation_rows : int
        Largest number of validation rows of all folds.
    max_reference_rows : int
        Largest number of training rows among which the neighbours of validation rows are found.
    cosine_error_ratio : float
        Discriminants whose error is at most this multiple of the error of the cosine of X are taken without trying
        rounds and the unsupervised form.
    """

    discriminants: Form = DISCRIMINANTS
    unsupervised: Form = UNSUPERVISED
    scales: tuple[float, ...] = (0.0, 0.5)
    new_classes: Form = NEW_CLASSES
    new_classes_scale: float = 0.5
    local: tuple[float, ...] = (0.3, 0.6, 0.9)
    max_components: int = 256
    rounds: int = 10
    max_rounds: int = 30
    max_search_rows: int = 10_000
    enough_validation_groups: int = ENOUGH_VALIDATION_GROUPS
    max_validation_rows: int = MAX_VALIDATION_ROWS
    max_reference_rows: int = 2000
    cosine_error_ratio: float = 1 / 3

    def forms(self, new_classes: bool) -> list[Form]:
        """Return the forms that are tried, the one with which ridge and scale are chosen first."""
        if not new_classes:
            return [self.discriminants, self.unsupervised]
        return list(
            dict.fromkeys([self.new_classes, *(Form(self.new_classes.within, each) for each in self.local)])
        )

    def start_scale(self, new_classes: bool) -> float:
        """Return the scale from which the search starts."""
        return self.new_classes_scale if new_classes else self.scales[0]

    def rounds_for(self, n_groups: int) -> int:
        """Return the number of rounds for data with that many groups; with few groups, more rounds overfit."""
        return min(max(self.rounds, self.rounds * n_groups // self.max_search_rows), self.max_rounds)
