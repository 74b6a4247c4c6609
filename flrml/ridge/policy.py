"""The limits and thresholds of the parameter search of RidgeFLRML."""

from dataclasses import dataclass

from flrml.folds import CROSS_VALIDATE_BELOW_GROUPS, MAX_VALIDATION_ROWS
from flrml.ridge.candidates import Form

DISCRIMINANTS = Form(within=0.97, local=0.1)
UNSUPERVISED = Form(within=0.0, local=1.0)


@dataclass(frozen=True)
class SearchPolicy:
    """Limits and thresholds of the parameter search of :class:`flrml.RidgeFLRML`.

    The defaults were chosen once, on validation splits of the training parts of text and image data.

    Attributes
    ----------
    discriminants : Form
        The supervised form.
    unsupervised : Form
        The form without labels, which keeps the geometry of X.
    rounds, max_rounds : int
        Number of rounds that is tried; up to ``max_rounds`` are made if the data have more groups than
        ``max_search_rows``.
    max_search_rows : int
        Largest number of rows to search with; with more rows, a random sample is searched.
    cross_validate_below_groups : int
        Number of groups below which all five folds are used, not only the first.
    max_validation_rows : int
        Largest number of validation rows of a single fold.
    max_reference_rows : int
        Largest number of training rows among which the neighbours of validation rows are found.
    sample_cosine_from_rows : int
        Number of rows from which the cosine of X is evaluated on a smaller sample.
    max_cosine_validation_rows, max_cosine_reference_rows : int
        Size of that sample: validation rows, and training rows among which their neighbours are found.
    cosine_error_ratio : float
        Discriminants whose error is below this multiple of the error of the cosine of X are taken without trying
        the unsupervised form.
    standard_errors_to_switch : float
        The unsupervised form replaces the discriminants if its gain exceeds this many standard errors.
    pseudo_disagreements : int
        Added to the number of decisions in which two candidates differ, so that a single row decides nothing.
    """

    discriminants: Form = DISCRIMINANTS
    unsupervised: Form = UNSUPERVISED
    rounds: int = 10
    max_rounds: int = 30
    max_search_rows: int = 10_000
    cross_validate_below_groups: int = CROSS_VALIDATE_BELOW_GROUPS
    max_validation_rows: int = MAX_VALIDATION_ROWS
    max_reference_rows: int = 3000
    sample_cosine_from_rows: int = 2000
    max_cosine_validation_rows: int = 400
    max_cosine_reference_rows: int = 2000
    cosine_error_ratio: float = 2 / 3
    standard_errors_to_switch: float = 2
    pseudo_disagreements: int = 2

    @property
    def forms(self) -> tuple[Form, Form]:
        """Both forms, the supervised one first."""
        return self.discriminants, self.unsupervised

    def rounds_for(self, n_groups: int) -> int:
        """Return the number of rounds for data with that many groups; with few groups, more rounds overfit."""
        return min(max(self.rounds, self.rounds * n_groups // self.max_search_rows), self.max_rounds)
