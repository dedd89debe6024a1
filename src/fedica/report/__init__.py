"""The report of an aggregate: one self-contained HTML page, and the same figures for notebooks and papers."""

from fedica.report.figures.atoms import plot_atoms
from fedica.report.figures.components import plot_components
from fedica.report.figures.likeness import plot_likeness
from fedica.report.figures.spectrum import plot_spectrum
from fedica.report.figures.trust import plot_trust
from fedica.report.headline import Headline, headline
from fedica.report.notebook import show
from fedica.report.page import render_report, write_report
from fedica.report.print_figures import write_figures

__all__ = [
    "Headline",
    "headline",
    "plot_atoms",
    "plot_components",
    "plot_likeness",
    "plot_spectrum",
    "plot_trust",
    "render_report",
    "show",
    "write_figures",
    "write_report",
]
