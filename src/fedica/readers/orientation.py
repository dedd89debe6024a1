"""Tables with one feature per row and one sample per column, as expression tables usually are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from fedica.errors import DataError
from fedica.readers.cell_rows import ROW_NUMBER
from fedica.readers.cells import DATE
from fedica.readers.identifiers import plain
from fedica.readers.select import choose_columns
from fedica.readers.sheet import Sheet
from fedica.text import list_names

_SAMPLE = re.compile(
    r"(?i)(GSM\d+.*|[SED]RR\d+|SAM(N|EA|D)\d+|TCGA-.*|GTEX-.*"
    r"|(sample|subject|sub|patient|pat|participant|donor|case|control|ctrl|proband|mouse|person)[\s_.-]*\d+.*)"
)
_FEATURE = re.compile(
    r"ENS[A-Z]*[GTP]\d{6,}(\.\d+)?|.*_at|ILMN_\d+|A_\d+_P\d+|cg\d{8}|rs\d{3,}|[NX][MR]_\d+(\.\d+)?"
    r"|FBgn\d{7}|WBGene\d{8}|AT[1-5CM]G\d{5}(\.\d+)?|Y[A-P][LR]\d{3}[WC](-[A-Z])?|[a-z]{3}-(mir|miR|let)-\S+"
)
_SYMBOL = re.compile(r"[A-Z][A-Z0-9]{1,9}([-.][A-Z0-9]{1,6})?|C(\d{1,2}|X|Y)orf\d{1,3}")
"""Symbols of genes, such as TP53, HLA-A, C9orf72."""
_FEATURE_COLUMN = re.compile(
    r"(.* )?(genes?|symbols?|probes?|probesets?|transcripts?|proteins?|metabolites?|features?|ensembl|entrez|hgnc"
    r"|uniprot|cpg|otu|asv|taxon)( ?(ids?|names?|symbols?|set))*|id ref|geneid|locus tag"
)
"""Names of a column of labels that are features."""
_MOST = 0.8
_MANY_WORDS = 20
_MIN_NUMBERED = 0.1
_ZERO = 1e-3
"""Means below this share of the spread are zero: tables are rounded."""


def transposed(sheet: Sheet, source: str) -> Sheet:
    """Turn a sheet with one feature per row into one with one sample per row.

    Columns that are called as identifiers or dates are no samples. The features are called as the rows are labelled.
    """

    def is_sample(name: str, why: str) -> bool:
        return "by its name" not in why

    if sheet.persons is not None:
        raise DataError(f"{source}: --person names a column; a transposed table has samples in its columns.")
    values, names, left_out, _ = choose_columns(sheet, source, None, lacking_ok=False, keep=is_sample)
    n_features, n_samples = values.shape
    labels = sheet.labels if sheet.labels is not None and len(set(sheet.labels)) == n_features else None
    if sheet.labels is not None and labels is None:
        raise DataError(f"{source}: the labels of the rows must be different to name features; some are equal.")
    if labels is not None:
        left_out.pop(sheet.labels_column or ROW_NUMBER, None)  # it names the features
    note = f"transposed: the {n_features} rows were read as features, the {n_samples} columns as samples."
    return Sheet(values.T, labels, left_out, (*sheet.notes, note), labels=names, measured=True)


def check_orientation(sheet: Sheet, source: str) -> None:
    """Refuse a table whose rows seem to be features until the user says what they are."""
    if sheet.measured or sheet.names is None:
        return
    labels = sheet.labels or ()
    distinct = len(set(labels)) == len(labels) > 2
    signs = [
        _mostly(_SAMPLE, sheet.names) and len(sheet.names) > 1,
        distinct and _mostly(_FEATURE, labels),
        distinct and bool(_FEATURE_COLUMN.fullmatch(plain(sheet.labels_column))),
        distinct and not sheet.labels_column and not _mostly(_SAMPLE, labels) and _rows_differ_most(sheet),
        distinct and not sheet.labels_column and _are_symbols(labels) and not _are_genes(sheet.names),
    ]
    if any(signs):
        rows = f", rows such as {list_names(labels[:2])}" if labels else ""
        raise DataError(
            f"{source}: it seems to hold one feature per row and one sample per column (columns such as "
            f"{list_names(sheet.names[:2])}{rows}). Give --transpose if it does, --no-transpose if every row is a "
            "sample."
        )


def _mostly(pattern: re.Pattern[str], names: Iterable[str]) -> bool:
    found = [bool(pattern.fullmatch(name)) for name in names]
    return sum(found) >= _MOST * len(found) > 0


def _are_genes(names: Sequence[str]) -> bool:
    return _mostly(_FEATURE, names) or _are_symbols(names)


def _are_symbols(names: Sequence[str]) -> bool:
    """Whether names are symbols of genes: many words in capitals, of several lengths, some of them with a number.

    Samples that are counted (KO1, KO2, WT1) share few words; codes of persons have one length; names have no number.
    """
    symbols = [name for name in names if _SYMBOL.fullmatch(name)]
    if len(symbols) < _MOST * len(names) or len({len(name) for name in symbols}) < 2:
        return False
    words = {re.split(r"\d", name, maxsplit=1)[0] for name in symbols}
    n_numbered = sum(any(map(str.isdigit, name)) for name in symbols)
    return len(words) > min(len(symbols) / 2, _MANY_WORDS) and n_numbered >= _MIN_NUMBERED * len(symbols)


def _rows_differ_most(sheet: Sheet) -> bool:
    """Whether rows with names differ in their means by more than columns do: genes do, people and times do not.

    Where each row has the mean zero, and columns have not, the rows were centred, as features are.
    """
    labels = sheet.labels or ()
    if sheet.values.shape[1] < 2 or all(map(str.isdigit, labels)) or _mostly(DATE, labels):
        return False
    values = np.nan_to_num(np.asarray(sheet.values, dtype=np.float64))
    centred = [bool(np.all(np.abs(values.mean(axis=axis)) <= _ZERO * values.std())) for axis in (0, 1)]
    return centred == [False, True] or bool(np.var(values.mean(axis=1)) > np.var(values.mean(axis=0)))
