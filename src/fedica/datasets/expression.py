"""Gene expression of E. coli, with a published ICA to compare with."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedica.arrays import Array
from fedica.datasets.archive import Archive, fetch
from fedica.datasets.results import Origin

_PYMODULON = Archive(
    "pymodulon",
    "0.2.1",
    "24cf88b53e7dfe69c3bc1d4f3e28b2d30a0bf874eab1930d22208aff3ddd81b8",
    50,
    {
        "pymodulon/data/ecoli/X.csv": "f4b6e705a0dd3699cfd416130d85e4f0b246432d9d295859a6a28195f760fb89",
        "pymodulon/data/ecoli/M.csv": "6e247e862a6915185929679d1080dd6e856899a6b0f84d080987064f41130185",
        "pymodulon/data/ecoli/A.csv": "403b6462120158a111e609318ad434cff7a745df66310e7ae49c29cb8b590e5d",
        "pymodulon/data/ecoli/sample_table.csv": "50068a6db1df0ca238d402d5884ba8eb25223d000cf2ea0808d406a84775e79e",
    },
)


@dataclass(frozen=True, eq=False, repr=False)
class Ecoli:
    """The PRECISE compendium: expression of every gene in 278 cultures, and its published decomposition.

    Parameters
    ----------
    expression : ndarray of shape (n_samples, n_genes)
        Log2 of transcripts per million, minus that of the reference condition. One row per culture.
    genes : tuple of str
        Names of the genes, as in ``"b0002"``.
    samples : tuple of str
        Names of the cultures.
    projects : tuple of str
        Which of 21 projects each culture belongs to.
    published : ndarray of shape (n_genes, 92)
        The published components: weight of each gene. Independent over genes.
    activities : ndarray of shape (n_samples, 92)
        The published activity of each component in each culture.
    components : tuple of str
        Names of the 92 components.
    unit : str
        Unit of the expression.
    origin : Origin
        Where it comes from.
    """

    expression: Array
    genes: tuple[str, ...]
    samples: tuple[str, ...]
    projects: tuple[str, ...]
    published: Array
    activities: Array
    components: tuple[str, ...]
    unit: str
    origin: Origin

    def __post_init__(self) -> None:
        for array in (self.expression, self.published, self.activities):
            array.setflags(write=False)

    def __repr__(self) -> str:
        n_samples, n_genes = self.expression.shape
        return (
            f"Ecoli: {n_samples} cultures of {len(set(self.projects))} projects, {n_genes} genes, "
            f"{len(self.components)} published components, from {self.origin.package}"
        )


def fetch_ecoli() -> Ecoli:
    """Gene expression of E. coli in 278 cultures of 21 projects, and the 92 components published for it.

    Returns
    -------
    Ecoli
        ``expression`` is (278, 3923); fit it with ``independence="features"``, as the published components were found.
    """
    files = fetch(_PYMODULON)
    genes, samples, expression = _labelled(files["X.csv"])  # genes x samples, as the other two
    same_genes, components, published = _labelled(files["M.csv"])
    same_components, same_samples, activities = _labelled(files["A.csv"])
    with open(files["sample_table.csv"], encoding="utf-8", newline="") as stream:
        project = {row["Sample ID"]: row["project"] for row in csv.DictReader(stream)}
    assert genes == same_genes  # the files are pinned
    assert components == same_components
    assert samples == same_samples
    return Ecoli(
        np.ascontiguousarray(expression.T),
        genes,
        samples,
        tuple(project[sample] for sample in samples),
        published,
        np.ascontiguousarray(activities.T),
        components,
        "log2 TPM, relative to the reference condition",
        Origin(
            "pymodulon 0.2.1",
            "MIT",
            "Sastry et al. (2019), The Escherichia coli transcriptome mostly consists of independently regulated "
            "modules, Nat. Commun. 10:5536, doi:10.1038/s41467-019-13483-w",
        ),
    )


def _labelled(path: Path) -> tuple[tuple[str, ...], tuple[str, ...], Array]:
    """Return the names of rows and columns of a text table, and its numbers."""
    with open(path, encoding="utf-8", newline="") as stream:
        reader = csv.reader(stream)
        columns = tuple(next(reader)[1:])
        rows, numbers = [], []
        for name, *cells in reader:
            rows.append(name)
            numbers.append(np.array(cells, dtype=np.float64))
    return tuple(rows), columns, np.stack(numbers)
