"""The numbers that the paper prints: its Tables 1 to 4, and what its text says of them."""

# Table 1: features, training samples, test samples, classes.
DATASETS = {
    "NG20": (62_061, 15_935, 3_993, 20),
    "RCV1": (29_992, 4_813, 4_812, 4),
    "TDT2": (36_771, 4_697, 4_697, 30),
    "MNIST": (780, 60_000, 10_000, 10),
    "M10-16": (4_096, 47_892, 10_896, 10),
    "M40-16": (4_096, 118_116, 29_616, 40),
    "M10-100": (1_000_000, 47_892, 10_896, 10),
    "M40-100": (1_000_000, 118_116, 29_616, 40),
}

# Table 2: operations, entries of the variable, entries of the constant matrices, in one iteration.
COMPLEXITY = {
    "LMNN": ("|T| r² + r³", "|T| r + r²", "n r"),
    "LRSML": ("n² d", "n²", "n²"),
    "FRML": ("D n² + D² d", "D²", "D n"),
    "DRML": ("D² |T| + D² d", "D d", "D |T|"),
    "SGDINC": ("D d² + D n_I²", "D d", "D n_I"),
    "FLRML": ("n r d + n r²", "r² + n d", "n r"),
    "M-FLRML": ("D n_I² + D n_I d", "D d", "D n_I"),
}

# Table 3: accuracy in per cent and training time in seconds, or "M": out of memory, or "E": no finite non-zero
# solution. In the order of these data sets:
WITH_SVD_DATASETS = ("NG20", "RCV1", "TDT2", "MNIST", "M10-16", "M40-16")
SVD_SECONDS = (191, 91, 107, 10, 355, 814)
WITH_SVD = {
    "OASIS": ((24.3, 405), (84.6, 368), (89.4, 306), (97.7, 21), (83.3, 492), (67.9, 380)),
    "KISSME": ((67.8, 627), (92.1, 224), (95.9, 220), (95.7, 74), (76.2, 1750), (40.8, 7900)),
    "RMML": ((43.7, 342), (66.5, 476), (87.5, 509), (97.6, 18), (82.1, 366), "M"),
    "LMNN": ((62.2, 1680), (88.4, 261), (97.6, 1850), (97.8, 3634), "M", "M"),
    "LRSML": ((46.9, 90), (93.7, 50), (85.3, 1093), "M", "M", "M"),
    "FRML": ((75.7, 227), (94.2, 391), (97.0, 371), (90.5, 48), (76.1, 172), (69.1, 931)),
    "FLRML": ((80.2, 37), (93.5, 14), (96.3, 10), (95.9, 7), (83.4, 41), (75.0, 101)),
}

# Table 4, likewise.
WITHOUT_SVD_DATASETS = ("NG20", "RCV1", "TDT2", "MNIST", "M10-16", "M40-16", "M10-100", "M40-100")
WITHOUT_SVD = {
    "SCML": ("M", (93.9, 8508), (96.9, 211), (91.3, 310), "E", "E", "M", "M"),
    "DRML": ((25.1, 2600), (91.4, 216), (82.2, 750), (82.1, 1109), (72.5, 6326), "M", "M", "M"),
    "SGDINC": (
        (54.0, 3399), (94.2, 1367), (96.9, 1121), (97.6, 44),
        (83.5, 174), (74.2, 163), (56.9, 4308), (35.5, 5705),
    ),
    "M-FLRML": (
        (54.2, 26), (92.7, 11), (95.0, 14), (96.1, 1),
        (83.0, 2), (74.0, 2), (82.7, 637), (73.8, 654),
    ),
}  # fmt: skip

# Cells in bold: the methods whose accuracy is, by data set of Table 3 and of Table 4. Every time of FLRML and of
# M-FLRML is bold, and no other.
BOLD_WITH_SVD = (("FLRML",), ("FRML",), ("LMNN",), ("LMNN",), ("FLRML",), ("FLRML",))
BOLD_WITHOUT_SVD = (
    ("M-FLRML",),
    ("SGDINC",),
    ("SCML", "SGDINC"),
    ("SGDINC",),
    ("SGDINC",),
    ("SGDINC",),
    ("M-FLRML",),
    ("M-FLRML",),
)

# Section 4.2: the margin as a multiple of the mean squared length of the embeddings, the triplets of a mini-batch
# and the number of mini-batches of the tables.
MARGIN_RATIO, BATCH_TRIPLETS, N_BATCHES = 1.0, 80, 20

# Section 4.2: gigabytes that M-FLRML took on M40-100, those of the bare program included.
PEAK_GIGABYTES = 6.20

# Not printed: the authors' published code, run under GNU Octave on the same files; mean accuracy of the runs.
AUTHORS_CODE = {
    "FLRML": {"NG20": 79.7, "TDT2": 95.0, "MNIST": 95.7, "M10-16": 79.6},
    "M-FLRML": {"TDT2": 94.9, "MNIST": 95.2},
}
