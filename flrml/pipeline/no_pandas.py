"""Keep scikit-learn from importing pandas, which is a quarter of a job's start; jobs give it no data frames.

Import this before anything that imports scikit-learn. pandas itself can still be imported afterwards.
"""

import sys

if "pandas" not in sys.modules and "sklearn" not in sys.modules:
    sys.modules["pandas"] = None  # type: ignore[assignment]
    import sklearn.utils.fixes  # noqa: F401

    del sys.modules["pandas"]
