"""The numbers that the paper prints: accuracies in per cent, or the letter of a run that did not end.

The paper prints more than is known here: a cell whose figure is not known stays without one.
"""

ACCURACY: dict[str, dict[str, float | str]] = {
    "FLRML": {"NG20": 80.2, "TDT2": 96.3, "MNIST": 95.9, "M10-16": 83.4},
    "M-FLRML": {"NG20": 54.2, "TDT2": 95.0, "MNIST": 96.1},
    "OASIS": {"NG20": 24.0},
    "DRML": {"NG20": 25.0, "M10-100": "M", "M40-100": "M"},
    "RMML": {"M40-16": "M"},
    "LMNN": {"M10-16": "M", "M40-16": "M"},
    "LRSML": {"MNIST": "M", "M10-16": "M", "M40-16": "M"},
}

# The authors' published code, run under GNU Octave on the same files: mean of the runs.
AUTHORS_CODE: dict[str, dict[str, float]] = {
    "FLRML": {"NG20": 74.3, "TDT2": 94.75, "MNIST": 95.7},
    "M-FLRML": {"NG20": 55.95, "TDT2": 94.9, "MNIST": 95.2},
}

# Per iteration: operations, size of the variable, size of the largest constant matrix. FLRML, FRML and what is
# known of LMNN and DRML are the paper's; the rest is counted from the algorithms.
COMPLEXITY: dict[str, tuple[str, str, str]] = {
    "LRSML": ("n² r + r³", "n²", "n r"),
    "FRML": ("D n² + D² d", "D²", "D n"),
    "LMNN": ("n r²", "r²", "n r"),
    "SGDINC": ("D (d + N_t)²", "D d", "N_t D"),
    "DRML": ("D |T|", "D d", "D |T|"),
    "FLRML": ("n r² + n r d", "r d", "n r"),
    "FLRML, implicit (ours)": ("2 n r d + n d²", "r d", "n r, one side of the SVD"),
    "M-FLRML": ("D n_I d + n_I³", "D d", "D n_I"),
    "M-FLRML, Gram form (ours)": ("nnz(X_I) (n_I + 2 d) + n_I³", "D d", "nnz(X_I)"),
}
