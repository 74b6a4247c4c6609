"""The catalog of figures and tables: one entry each.

A new figure is a function and an entry of FIGURES, a new table a function and an entry of TABLES. Rules, the schema
of the configuration, the report, the documentation and the published pages follow from the entries. Nothing that
draws imports this module, so that a new entry draws only itself; an entry is passed to its job as parameters.
"""

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar


@dataclass(frozen=True)
class Entry:
    """A table, or what a figure has in common with one; it is made if there are results for it.

    The function of a figure takes the path without suffix and the :class:`~flrml.pipeline.report.results.Results`,
    that of a table takes the results and returns a table.
    """

    folder: ClassVar[str] = "tables"
    suffixes: ClassVar[tuple[str, ...]] = (".md", ".csv", ".tex", ".rst", ".html")

    name: str  # of its files, and of its rule after ``figure_`` or ``table_``
    title: str  # on the published page
    function: str  # and its module, below ``flrml.pipeline.report``
    inputs: tuple[str, ...]  # kinds of result files that it reads, keys of ``result_files.KINDS``
    caption: str  # what its axes, or its rows and columns, show
    category: str = "Tables"  # section of the report
    needs: str = ""  # kind of result files without which it is not made; the first of ``inputs`` if not given

    @property
    def module(self) -> str:
        """The module of its function, below ``flrml``."""
        return f"pipeline.report.{self.function.rpartition('.')[0]}"

    @property
    def rule(self) -> str:
        """The name of its rule."""
        return f"{self.folder.removesuffix('s')}_{self.name}"

    @property
    def files(self) -> list[str]:
        """Its files below the results, the last of which the report shows."""
        return [f"{self.folder}/{self.name}{suffix}" for suffix in self.suffixes]

    @property
    def required(self) -> tuple[str, ...]:
        """The kinds of result files of which there must be one."""
        return (self.needs,) if self.needs else self.inputs[:1]


@dataclass(frozen=True)
class Figure(Entry):
    """A figure; it is drawn if the configuration lists it too."""

    folder: ClassVar[str] = "figures"
    suffixes: ClassVar[tuple[str, ...]] = (".pdf", ".csv", ".rst", ".png")

    # JSON schemas by name; ``$ref`` may name a definition of the configuration's schema.
    settings: dict[str, Any] = field(default_factory=dict)
    needs_svd: bool = False  # of all its data sets

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its entry in a configuration."""
        rules = {"additionalProperties": False, "description": re.split(r"[.:;] |\.$", self.caption)[0]}
        if not self.settings:
            return {"type": ["object", "null"], **rules}
        needed = {"required": ["datasets"]} if "datasets" in self.settings else {"minProperties": 1}
        return {"type": "object", **rules, **needed, "properties": self.settings}


AnyEntry = TypeVar("AnyEntry", bound=Entry)


def _values(kind: str, default: list, meaning: str) -> dict[str, Any]:
    """Return the JSON schema of the values of a parameter."""
    items = {"type": kind, "exclusiveMinimum": 0}
    unique = {"type": "array", "items": items, "minItems": 1, "uniqueItems": True}
    return {**unique, "default": default, "description": meaning}


def _methods(*default: str) -> dict[str, Any]:
    return {"$ref": "#/$defs/methods", "default": list(default)}


def _by_name(*entries: AnyEntry) -> dict[str, AnyEntry]:
    return {entry.name: entry for entry in entries}


_DATASETS = {"datasets": {"$ref": "#/$defs/names"}}
_REPEATS = {"repeats": {"type": "integer", "minimum": 1, "default": 5, "description": "Seeds per point"}}
_METHOD, _SWEEPS, _BEYOND = "The method", "Sweeps", "Beyond the paper"

FIGURES = _by_name(
    Figure(
        "smoothing",
        "μ(x)",
        "figures.printed.draw_smoothing",
        (),
        "Value against x of the smooth function μ(x) = log(1 + eˣ) and of max(0, x). The smooth one gives the "
        "weights of the directions.",
        _METHOD,
    ),
    Figure(
        "convergence",
        "Convergence",
        "figures.printed.draw_convergence",
        ("descents",),
        'Objective per iteration, relative to the first objective, a line per data set. "FLRML" descends on one '
        'objective; "FLRML (reference)" follows the authors\' code, whose kept value is the hinge sum.',
        _METHOD,
        settings=_DATASETS,
        needs_svd=True,
    ),
    Figure(
        "margin",
        "Margin",
        "figures.printed.draw_margin",
        ("margin",),
        "5-NN accuracy against the margin ratio m / l̄ of FLRML and of the authors' code (reference): mean over "
        "repeats; the band is one standard deviation. The dotted line marks the ratio that the paper uses.",
        _SWEEPS,
        settings={
            **_DATASETS,
            "methods": _methods("flrml", "flrml-reference"),
            "ratios": _values(
                "number",
                [0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0],
                "Margins as multiples of the mean squared length of the embeddings",
            ),
            **_REPEATS,
        },
        needs_svd=True,
    ),
    Figure(
        "batches",
        "Mini-batches",
        "figures.printed.draw_batches",
        ("batches",),
        "5-NN accuracy of M-FLRML and of the authors' code (reference) against the number of mini-batches, for "
        "several numbers of triplets N_t: mean over repeats; the band is one standard deviation. The dotted line "
        "marks the number of mini-batches that the paper uses.",
        _SWEEPS,
        settings={
            **_DATASETS,
            "methods": _methods("mflrml", "mflrml-reference"),
            "n_batches": {
                "type": "integer",
                "minimum": 1,
                "description": "Mini-batches; those of the tables if not given",
            },
            "sizes": _values("integer", [20, 40, 80, 160], "Triplets per mini-batch, N_t"),
            **_REPEATS,
        },
    ),
    Figure(
        "directions",
        "Number of directions",
        "figures.ranking.draw_directions",
        ("directions", "all_runs"),
        "Recall at 1 and MAP@R against the number of directions d, side by side for each data set: mean over "
        "repeats; the band is one standard deviation. The dotted line is cosine on X.",
        _SWEEPS,
        settings={
            **_DATASETS,
            "methods": _methods("svd", "flrml", "flrml-ridge"),
            "sizes": _values("integer", [10, 20, 50, 100, 200], "Numbers of directions"),
            **_REPEATS,
        },
        needs_svd=True,
    ),
    Figure(
        "new_classes",
        "New classes",
        "figures.ranking.draw_new_classes",
        ("new_classes",),
        "MAP@R against recall at 1 among rows of classes that are not trained on: mean over splits of the classes "
        "and seeds; bars are one standard deviation. Dotted lines cross at cosine on X.",
        _BEYOND,
    ),
    Figure(
        "growth",
        "Growth",
        "figures.beyond.draw_growth",
        ("growth",),
        "Time of an iteration, or of a mini-batch, and peak memory of the process against the number of samples n "
        "or of features D, with fitted exponents.",
        _BEYOND,
        settings={
            "n": {"$ref": "#/$defs/growth", "description": "Against the number of samples"},
            "D": {"$ref": "#/$defs/growth", "description": "Against the number of features"},
        },
    ),
    Figure(
        "pareto",
        "Accuracy against time",
        "figures.beyond.draw_pareto",
        ("runs", "svd"),
        "5-NN accuracy against training time, with the time of the SVD if a method needs one. The grey line joins "
        "the methods that no other method beats in both.",
        _BEYOND,
    ),
    Figure(
        "iterations",
        "RidgeFLRML",
        "figures.beyond.draw_iterations",
        ("iterations",),
        "A column per data set. FLRML, the authors' code (reference) and RidgeFLRML per iteration or round: 5-NN "
        "accuracy, with cosine on X as a dotted line; the objective relative to the first one, for RidgeFLRML the "
        "mean hinge before each round. Below, accuracy against the ridge g of RidgeFLRML, from whitening to the "
        "unsupervised form.",
        _BEYOND,
        settings={
            **_DATASETS,
            "ridges": _values(
                "number",
                [0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0],
                "Ridges g, as multiples of the mean square of a row",
            ),
        },
        needs_svd=True,
    ),
)

TABLES = _by_name(
    Entry(
        "summary",
        "RidgeFLRML and the others",
        "comparison.summary_table",
        ("runs", "svd"),
        "5-NN accuracy and seconds of training, the SVD included if a method needs one: a row per data set; "
        "columns for cosine on X, FLRML, RidgeFLRML and the best other method.",
    ),
    Entry(
        "claims",
        "The paper's claims",
        "claims.claims_table",
        ("runs", "margin", "batches", "growth", "iterations", "svd"),
        "A row per claim of the paper's sections 3 and 4; columns for its section, the claim, the measurement of "
        "this experiment and the verdict.",
        needs="claimed",
    ),
    Entry(
        "reproduction",
        "The paper's methods on its data",
        "comparison.reproduction_table",
        ("paper_runs", "metas"),
        "FLRML and M-FLRML on the paper's data sets, a row per run; columns for the accuracy that the paper "
        "prints, that of the authors' code and ours by both votes, for counts of iterations and for seconds.",
    ),
    Entry(
        "with_svd",
        "Table 3: methods on an SVD",
        "comparison.with_svd_table",
        ("runs", "metas", "svd"),
        "Methods that start from an SVD (the paper's Table 3), with unsupervised controls: a row per method; "
        "columns for the 5-NN accuracy and the seconds of training on each data set, the paper's in brackets.",
        needs="svd",
    ),
    Entry(
        "without_svd",
        "Table 4: methods on the data",
        "comparison.without_svd_table",
        ("runs", "metas"),
        "Methods that work on the data (the paper's Table 4), with unsupervised controls: a row per method; "
        "columns for the 5-NN accuracy and the seconds of training on each data set, the paper's in brackets.",
    ),
    Entry(
        "splits",
        "Splits of the training parts",
        "comparison.splits_table",
        ("studies",),
        "Mean and standard deviation of the 5-NN accuracy over splits of the training parts and seeds: a row per "
        "method and a column per data set. Test parts are not used.",
    ),
    Entry(
        "retrieval",
        "Retrieval",
        "comparison.retrieval_table",
        ("all_runs",),
        "Recall at 1 and MAP@R, the mean average precision at the number R of rows of the query's class: a row per "
        "method, columns for both on each data set; mean and standard deviation over splits and seeds.",
    ),
    Entry(
        "memory",
        "Memory",
        "comparison.memory_table",
        ("runs",),
        "Peak memory of the process of every training in MB: a row per method and a column per data set.",
    ),
    Entry(
        "complexity",
        "Table 2: complexity",
        "comparison.complexity_table",
        ("growth",),
        "Complexity per iteration, a row per method: columns for the time and the sizes of variable and constant "
        "as the paper's Table 2 states them, for ours if they differ, and for measured exponents.",
        needs="claimed",
    ),
    Entry(
        "datasets",
        "Table 1: data sets",
        "comparison.dataset_table",
        ("metas",),
        "A row per data set: columns for its sizes as prepared, those of the paper's Table 1, and every "
        "difference.",
        needs="runs",
    ),
)
