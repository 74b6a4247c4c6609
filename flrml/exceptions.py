"""What flrml raises and warns with."""


class FlrmlWarning(UserWarning):
    """Something in the input is unusual and is handled as the message says."""


class SpectrumError(ValueError):
    """A stored decomposition is damaged, or does not belong to the data it is used with."""


class DatasetError(ValueError):
    """A data set is missing, damaged or inconsistent; the message says where and what to do."""


class NoSolutionError(ArithmeticError):
    """A method found no finite, non-zero solution."""
