"""How Sphinx builds the documentation: ``make docs``; no network, every warning an error."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import matplotlib as mpl

import fedica

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
mpl.use("agg")
warnings.filterwarnings("ignore", message="A worker stopped")  # joblib renews one whose memory has grown

project = "fedica"
author = "The fedica developers"
copyright = author
version = release = fedica.__version__

extensions = [
    "api_pages",
    "docstrings",
    "matplotlib.sphinxext.plot_directive",
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "figures/*.md"]
templates_path = ["_templates"]
default_role = "autolink"  # `LocalICA` in a docstring becomes a link where it can be imported
nitpicky = True

# Markdown: the pages are also read on repository pages, so the extensions stay few.
myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 4

# API: types stand in the docstrings, so the signatures need none.
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# Figures of the method's page: drawn by docs/figures at build time, by the functions that the page explains.
plot_formats = [("png", 130)]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_include_source = False
plot_rcparams = {"figure.dpi": 100, "savefig.bbox": "tight", "font.size": 10}
plot_apply_rcparams = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("fedica",),
    "within_subsection_order": "gallery_order.in_order_of_reading",
    "abort_on_example_error": True,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,
    "parallel": True,
    "min_reported_time": 1,
    "matplotlib_animations": False,
    "capture_repr": ("_repr_html_",),
    "image_srcset": ["2x"],
    "thumbnail_size": (640, 448),  # fedica.css shows half of that
}

html_theme = "pydata_sphinx_theme"
html_title = f"fedica {release}"
html_static_path = ["_static"]
html_css_files = ["fedica.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "fedica"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "changelog": [], "start": []}
