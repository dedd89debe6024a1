"""How every kind of reason is put into words: a template, or a function where the grammar depends on the numbers.

A new kind is one entry of `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedica.text import counted, list_names

Numbers = Mapping[str, Any]
"""What a sentence says, by name: whole numbers, floats, texts, and tuples of these."""
Part = str | Callable[[Numbers], str]
"""A template for `str.format_map`, or a function where the grammar depends on the numbers."""


@dataclass(frozen=True)
class Wording:
    """How a kind is put into words.

    Parameters
    ----------
    text : Part
        What holds.
    measured : Part
        What was measured, in brackets; the short form leaves it out.
    clauses : tuple of Part
        What is added at the end, each empty where there is nothing to say.
    """

    text: Part
    measured: Part = ""
    clauses: tuple[Part, ...] = ()


def list_components(numbers: Sequence[int]) -> str:
    """Name the first five components: "component 3", "components 1, 2"."""
    named = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
    return f"component{'s' if len(numbers) > 1 else ''} {named}"


# Of verdicts.


def _lacks(numbers: Numbers) -> str:
    return f"; lacks {list_components(numbers['missing'])}" if numbers.get("missing") else ""


def _unmatched(numbers: Numbers) -> str:
    n_unmatched = numbers.get("n_unmatched")
    match = "matches" if n_unmatched == 1 else "match"
    return f"; {n_unmatched} of its {numbers['n_atoms']} atoms {match} no component" if n_unmatched else ""


def _copies(numbers: Numbers) -> str:
    n_copies = numbers.get("n_copies", 1)
    return f"; {n_copies} clients sent these very atoms, and count as one" if n_copies > 1 else ""


def _far(numbers: Numbers) -> str:
    than = "its samples explain" if numbers.get("n_samples") else "the other clients"
    return f"farther from the components than {than}"


def _few_samples(numbers: Numbers) -> str:
    n = numbers["n_samples"]
    return f"noisy, as its {counted(n, 'sample')} explain{'s' if n == 1 else ''}"


def _other_basis(numbers: Numbers) -> str:
    n = numbers["n_agreeing"]
    others = "another outlying client" if n == 1 else f"{n} other outlying clients"
    return f"agrees with {others} on another basis, {numbers['angle']:.0f} degrees away"


def _likeness(numbers: Numbers) -> str:
    known = "likeness" in numbers  # results of 0.1.0 have the angle alone
    told = " (median cosine {likeness:.2f}; chance {chance:.2f})" if known else " (median angle {angle:.1f} degrees)"
    return told.format_map(numbers)


def _few_matches(numbers: Numbers) -> str:
    low, median, high = numbers["usual_matches"]
    others = f"{median}" if low == high else f"{low} to {high} (median {median})"
    return f"matches {numbers['n_matched']} of {numbers['n_possible']} components; the other clients match {others}"


def _no_match(numbers: Numbers) -> str:
    return f"none of its {counted(numbers['n_atoms'], 'atom')} matches a component"


BESIDES = (_lacks, _unmatched, _copies)
VERDICT_KINDS = {
    "agrees": Wording("agrees with the components", _likeness, BESIDES),
    "partial": Wording("agrees on what it has", _likeness, BESIDES),
    "noisy": Wording("noisier than most", _likeness, BESIDES),
    "few-samples": Wording(_few_samples, _likeness, BESIDES),
    "undetermined": Wording(
        "its data does not determine {n_uncertain} of its {n_atoms} atoms, as it says itself", _likeness, BESIDES
    ),
    "far": Wording(_far, _likeness, (_copies,)),
    "few-matches": Wording(_few_matches, clauses=(_copies,)),
    "unlike": Wording(
        "much less like the components than the other clients",
        " (mean cosine {mean_likeness:.2f}; theirs {usual_likeness:.2f}; chance {mean_chance:.2f})",
        (_copies,),
    ),
    "no-match": Wording(_no_match, _likeness, (_copies,)),
    "other-basis": Wording(_other_basis, clauses=(_copies,)),
    "little-explained": Wording(
        "the components explain {explained:.1%} of its variance, of the typical client's {usual:.1%}: much is its own, "
        "such as movement",
        _likeness,
        BESIDES,
    ),
    "not-judged": Wording("the method {method!r} judges no client"),
}
"""Why a client is trusted, partial, weak or outlying. Numbers: ``angle`` (degrees), ``likeness``, ``chance`` (median
cosines), ``mean_likeness``, ``usual_likeness``, ``mean_chance`` (mean cosines: the client's, the others', by chance),
``n_atoms``, ``n_matched``, ``n_possible``, ``usual_matches`` (of the clients: 10%, 50%, 90%), ``n_unmatched``,
``missing`` (components), ``n_samples`` (0: not declared), ``n_copies`` (clients that sent the same atoms),
``n_agreeing`` (other outlying clients that share its basis), ``n_uncertain`` (atoms that the client calls uncertain),
``explained``, ``usual`` (shares of variance)."""


# Of contributions that are left out.


def _term_differs(numbers: Numbers) -> str:
    if numbers["term"] == "n_features":
        told = "client {client!r} sent atoms of {value} features; {n_clients} other clients have {agreed}. " + FILL
    elif "study" in numbers:
        told = "client {client!r} declares {term} {value!r}; study {study!r} has {agreed!r}."
    else:
        told = "client {client!r} declares {term} {value!r}; {n_clients} other clients have {agreed!r}."
    return told.format_map(numbers)


def _other_study(numbers: Numbers) -> str:
    found = f"it is for {numbers['value']!r}" if numbers["value"] else "none is named"
    return (
        f"client {numbers['client']!r} sent a contribution for another study: expected {numbers['agreed']!r}; {found}."
    )


def _signed_with(numbers: Numbers) -> str:
    of = f"that of client {numbers['owner']!r}" if numbers["owner"] else "unknown"
    return f": the file is signed with key {numbers['key'][:16]!r}..., which is {of}."


def _say(n_clients: int) -> str:
    return "says" if n_clients == 1 else "say"


def _no_majority(numbers: Numbers) -> str:
    votes = zip(numbers["values"], numbers["counts"], strict=True)
    tally = [f"{count} {_say(count)} {value!r}" for value, count in votes]
    n_others, n_silent = numbers.get("n_values", 0) - len(tally), numbers.get("n_silent", 0)
    others = [f"{n_others} other values are declared"] if n_others > 0 else []
    silent = [f"{n_silent} {_say(n_silent)} nothing"] if n_silent else []
    remedy = f" {FILL}" if numbers["term"] in ("n_features", "features") else ""
    return (
        f"the clients do not agree on {numbers['term']}: {', '.join([*tally, *others, *silent])}. A value holds when "
        f"more than half of all clients declare it.{remedy}"
    )


def _features_differ(numbers: Numbers) -> str:
    listed = list_names(numbers["features"], 3)
    if "study" in numbers:
        return f"client {numbers['client']!r} has not the features of study {numbers['study']!r} ({listed}). {FILL}"
    return (
        f"client {numbers['client']!r} names features that {numbers['n_clients']} other clients do not have "
        f"({listed}). {FILL}"
    )


def _other_preprocessing(numbers: Numbers) -> str:
    told = "client {client!r} prepared its data otherwise than study {study!r} says: {step} is {value}, not {agreed}."
    if not numbers["step"]:
        told = "client {client!r} does not tell how its data was prepared, which study {study!r} fixes."
    return f"{told} Re-run fedica local with the study.".format_map(numbers)


FILL = "Re-run fedica local with the study's features, or fill what some lack first: fedica.fill_features."
REJECTION_KINDS = {
    "withdrawn": Wording("withdrawn by the coordinator."),
    "more-rejected": Wording("{n_rejected} more left out; rejected.csv lists all."),
    "duplicate-name": Wording(
        "client {client!r} sent {n_contributions} different contributions; every client sends one. "
        "Give each client a name of its own, or withdraw all but one."
    ),
    "other-aggregate": Wording(
        "client {client!r}: its second message refines another aggregate (fingerprint {refines}). Re-run fedica refine "
        "with the aggregate that is to be refined."
    ),
    "unknown-component": Wording(
        "client {client!r}: its second message is of component {component}, and the aggregate has {n_components}, "
        "from 0 on. Re-run fedica refine."
    ),
    "duplicate-scores": Wording("client {client!r} sent different second messages; every client sends one."),
    "other-study": Wording(_other_study),
    "term-differs": Wording(_term_differs),
    "other-preprocessing": Wording(_other_preprocessing),
    "no-majority": Wording(_no_majority),
    "features-differ": Wording(_features_differ),
    "unnamed-features": Wording(
        "client {client!r} sent atoms of {n_features} features without their names; {n_wanted} are wanted. "
        "Re-run fedica local on data that names its columns."
    ),
    "unordered-features": Wording(
        "client {client!r} sent atoms of {n_features} features without their names, and no order of the features is "
        "that of more than half of the clients. Re-run fedica local on data that names its columns."
    ),
    "unsigned": Wording(
        "client {client!r} sent an unsigned contribution; this federation takes signed ones. "
        "Sign it with: fedica local --key"
    ),
    "no-trusted-key": Wording("client {client!r} has no trusted key", clauses=(_signed_with,)),
    "other-key": Wording("client {client!r} did not sign with the key that is trusted for it", clauses=(_signed_with,)),
    "not-canonical": Wording(
        "client {client!r}: a signed file must be the canonical serialisation, byte by byte; this is not."
    ),
    "bad-signature": Wording(
        "client {client!r}: the signature does not fit; the file was altered after it was signed. Ask for it again."
    ),
    "empty-folder": Wording("{path}: there is no *{suffix} file in this folder."),
    "unreadable-folder": Wording("{path}: the folder cannot be read ({problem})."),
    "absent": Wording(
        "client {client!r}: its node was not connected when the clients were asked, or the run was interrupted before "
        "it answered."
    ),
    "no-answer": Wording("node {node}: {problem}"),
    "unreadable-answer": Wording("node {node}: {problem}"),
    "other-answer": Wording("node {node}: its answer is not one that fedica gives."),
    "other-name": Wording("node {node}: the node of client {client!r} sent a contribution in the name of {problem!r}."),
    "refused": Wording("node {node}: it refused: {problem}."),
    "too-few-features": Wording(
        "client {client!r} has {n_features} of the {n_wanted} features; at least {n_needed} are needed to tell its "
        "{n_atoms} atoms apart. Re-run fedica local with the study's features."
    ),
}
"""Why the server leaves a contribution out. What is wrong with a file or with data is said by the error that is raised:
its ``kind`` and ``numbers`` stand in `fedica.errors`."""


# Of a client's data.


def _columns(numbers: Numbers, columns: Sequence[int]) -> str:
    """Call columns by their names where these are known: ``names`` has those of ``columns``, in the same order."""
    named = map(repr, numbers["names"]) if "names" in numbers else (f"column {j}" for j in columns)
    return ", ".join(list(named)[:10]) + (", ..." if len(columns) > 10 else "")


def _constant_features(numbers: Numbers) -> str:
    columns = numbers["columns"]
    return (
        f"{len(columns)} of {numbers['n_features']} features are constant and get zero in every atom: "
        f"{_columns(numbers, columns)}. Leave them out to silence this."
    )


def _not_finite(numbers: Numbers) -> str:
    return (
        f"data must be finite; got {numbers['n_nan']} NaN and {numbers['n_infinite']} infinite values, "
        f"the first at row {numbers['row']}, {_columns(numbers, numbers['columns'])}. Fill or drop them."
    )


DATA_KINDS = {
    "constant-features": Wording(_constant_features),
    "not-finite": Wording(_not_finite),
}
"""What is the matter with columns of a client's data. Numbers: ``columns``, their ``names`` if known, and more."""

KINDS: dict[str, Wording] = {**VERDICT_KINDS, **REJECTION_KINDS, **DATA_KINDS}
