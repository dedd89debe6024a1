"""ICA itself: whitening, solvers, moments. Data in, rotation out; used by clients and by the server."""
