"""Data seen by blocks wherever it lies: in memory, in a mapped file, in an iterable, on a Dask cluster."""
