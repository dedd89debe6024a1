"""The report of an aggregate: one self-contained HTML page, and the same figures for notebooks and papers."""

from __future__ import annotations

from fedica.report.figures import plot_atoms, plot_components, plot_spectrum, plot_trust
from fedica.report.headline import Headline, headline
from fedica.report.notebook import show
from fedica.report.page import render_report, write_report
from fedica.report.print_figures import write_figures

__all__ = [
    "Headline",
    "headline",
    "plot_atoms",
    "plot_components",
    "plot_spectrum",
    "plot_trust",
    "render_report",
    "show",
    "write_figures",
    "write_report",
]
