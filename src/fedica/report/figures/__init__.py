"""The interactive figures, one file per figure, as descriptions that plotly and plotly.js draw alike.

The page embeds the descriptions and draws them with a small build of plotly.js; the ``plot_*`` functions turn the same
descriptions into plotly figures for notebooks.
"""

from __future__ import annotations

from fedica.report.figures.atoms import plot_atoms
from fedica.report.figures.components import plot_components
from fedica.report.figures.spectrum import plot_spectrum
from fedica.report.figures.trust import plot_trust

__all__ = ["plot_atoms", "plot_components", "plot_spectrum", "plot_trust"]
