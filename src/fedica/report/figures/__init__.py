"""The interactive figures, one file per figure, as descriptions that plotly and plotly.js draw alike.

The page embeds the descriptions and draws them with a small build of plotly.js; the ``plot_*`` functions turn the same
descriptions into plotly figures for notebooks.
"""
