"""Build the documentation: `make docs`."""

import sys
import warnings
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

sys.path.insert(0, str(Path(__file__).parent))

project = "flrml"
author = "The flrml developers"
copyright = author
release = version = installed("flrml")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
    "reference",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_generated/*.md", "gallery/README.rst", "gallery/**/*.ipynb"]
nitpicky = True
# Words of numpydoc's type descriptions that are no names.
nitpick_ignore_regex = [("py:class", r".*")]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
autodoc_typehints = "none"

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "plot_gallery": "True",
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 60,
    "write_computation_times": False,
}
# Examples show a warning without the place of the installation.
warnings.formatwarning = lambda message, category, *_: f"{category.__name__}: {message}\n"

html_theme = "pydata_sphinx_theme"
html_title = "flrml"
html_static_path = ["_static"]
html_css_files = ["flrml.css"]
html_show_sourcelink = False
html_sidebars = {"**": ["sections.html"]}  # all pages on every page, by section
html_theme_options = {
    "navigation_with_keys": False,
    "navbar_center": [],  # the sidebar leads everywhere
    # Not on pages of results, whose tables are wide.
    "secondary_sidebar_items": {pages: ["page-toc"] for pages in ("*", "gallery/*", "_generated/**")},
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_math_renderer = "mathml"


def _inline(self: Any, node: Any) -> None:
    self.body.append(convert(node.astext()))
    raise SkipNode


def _block(self: Any, node: Any) -> None:
    self.body.append(f'<p class="math">{convert(node.astext(), display="block")}</p>')
    raise SkipNode


def setup(app: Any) -> None:
    """Render formulas as MathML, which browsers show without any script."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
