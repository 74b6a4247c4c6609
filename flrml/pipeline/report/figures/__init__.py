"""Draw figures as PDF and PNG with their numbers as CSV, from result files alone."""

from flrml.pipeline.report.figures.beyond import draw_front, draw_growth, draw_ridge
from flrml.pipeline.report.figures.printed import draw_batches, draw_convergence, draw_margin, draw_smoothing

__all__ = [
    "draw_batches",
    "draw_convergence",
    "draw_front",
    "draw_growth",
    "draw_margin",
    "draw_ridge",
    "draw_smoothing",
]
