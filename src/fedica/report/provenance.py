"""Where a result comes from, and the command that repeats it."""

from __future__ import annotations

import json
import os
import platform
import shlex
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from os.path import dirname
from typing import Any

import numpy as np

from fedica.exchange import Provenance
from fedica.exchange.intake import SUFFIX
from fedica.records import Aggregate, Refinement
from fedica.text import MAX_PATH, show_text
from fedica.version import __version__

PACKAGES = ("numpy", "scipy", "scikit-learn")
_NAMES = {"n_components": "components", "n_components_from": "components known from", "n_init": "starts of k-means"}
MAX_TURNED = 24
"""Components of which the angle that a second message turned them by is told."""
MAX_FILES = 12
"""More files than this are named by their folder when it cannot be listed."""
MAX_LISTED_FILES = 1000
"""More files than this are named by their folders in any case."""


def versions() -> dict[str, str]:
    """Return the versions of what makes this page."""
    found = {"fedica": __version__, "Python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # vendored or frozen: nothing to say
            continue
    return found


def facts(aggregate: Aggregate, summary: Mapping[str, Any] | None) -> dict[str, str]:
    """Return what was computed and how, as pairs to show; what is unknown is left out."""
    terms, certificate = aggregate.terms, aggregate.certificate
    shown: dict[str, Any] = {
        "study": terms.study,
        "method": aggregate.method,
        **{_NAMES.get(name, name.replace("_", " ")): _plain(value) for name, value in aggregate.options.items()},
        "independence": terms.independence,
        "mixing": terms.mixing,
        "clients": len(aggregate.clients),
        "atoms": aggregate.labels.size,
        "features": terms.n_features,
        "aggregated by fedica": None if summary is None else summary.get("fedica"),
        "second message": _refinement_text(aggregate.refinement),
    }
    if certificate is not None:
        shown["grouping"] = _grouping_text(certificate.kmeans_gamma)
        shown["centres"] = (
            f"at most {1 + float(certificate.median_gap.max()):.6g} times the best median's distance (proven)"
        )
        if not certificate.median_gap.any():
            shown["centres"] = "means: exact"
    return {name: str(value) for name, value in shown.items() if value is not None}


def _grouping_text(gamma: float | None) -> str | None:
    """Return how near the best possible grouping k-means came, in words."""
    if gamma is None:
        return None
    if not np.isfinite(gamma):
        return "k-means put the atoms into groups; how near the best possible grouping that is could not be proven"
    above = "is the smallest possible" if gamma < 5e-4 else f"is at most {_percent(gamma)} above the smallest possible"
    return f"k-means put the atoms into groups; their squared distance to the centres of their groups {above} (proven)"


def _percent(share: float) -> str:
    return f"{100 * share:.2g}%" if share < 1 else f"{100 * share:.0f}%"


def _refinement_text(refinement: Refinement | None) -> str | None:
    """Return what second messages changed, in words; the command to repeat a result gives the first answer."""
    if refinement is None:
        return None
    angles = ", ".join(f"{a}: {angle:.2f}" for a, angle in enumerate(refinement.turned[:MAX_TURNED].tolist()))
    more = " ..." if refinement.turned.size > MAX_TURNED else ""
    turned = f" Components turned by so many degrees: {angles}{more}." if refinement.taken else " Nothing was changed."
    return (
        f"message {refinement.round} of each client: {refinement.reason}{turned} (The command below repeats the first "
        "answer.)"
    )


def command(aggregate: Aggregate, provenance: Sequence[Provenance], folder: str | None) -> str:
    """Return the command that repeats the aggregation, as a shell takes it; in Python if no file is known."""
    options, given = aggregate.options, _given_components(aggregate)
    sources = [origin.source for origin in provenance if origin.source]
    if len(sources) < len(aggregate.clients):
        return _python_call(aggregate)
    withdrawn = [x.client for x in aggregate.rejected if x.kind == "withdrawn"]
    inputs = _inputs(sources, [x.source for x in aggregate.rejected if x.source], len(withdrawn))
    words = ["fedica", "aggregate", *inputs, "-o", folder or "result"]
    if not set(sources) <= set(inputs):  # a folder, which still holds the withdrawn clients
        words += [word for client in withdrawn for word in ("--exclude", client)]
    if given is not None:
        words += ["--components", str(given)]
    words += ["--method", aggregate.method]
    if len(aggregate.clients) < 2:
        words += ["--min-clients", "1"]  # by default a single client's atoms are not published
    if aggregate.replicates is not None:
        words += ["--replication"]
    if "min_support" in options:
        words += ["--min-support", str(options["min_support"])]
    for name, flag in (("affinity", "--affinity"), ("weights", "--weights"), ("random_state", "--random-state")):
        if options.get(name) is not None:
            words += [flag, str(options[name])]
    return shlex.join(words)


def _given_components(aggregate: Aggregate) -> int | None:
    """Return the number of components if the user gave it."""
    options = aggregate.options
    return options.get("n_components") if options.get("n_components_from") == "given" else None


def _python_call(aggregate: Aggregate) -> str:
    options, given = aggregate.options, _given_components(aggregate)
    more = {name: options[name] for name in ("affinity", "weights", "n_init", "random_state") if name in options}
    arguments = [
        "contributions",
        *([] if given is None else [repr(given)]),
        f"method={aggregate.method!r}",
        *(f"{name}={value!r}" for name, value in more.items()),
    ]
    return f"fedica.aggregate({', '.join(arguments)})"


def _inputs(sources: Sequence[str], rejected: Sequence[str], n_withdrawn: int) -> list[str]:
    """Name the files; or their folder, if it holds these and the withdrawn ones alone, or if it cannot be listed."""
    named = {*sources, *rejected}
    folders = {dirname(source) for source in named}
    if len(named) > MAX_LISTED_FILES:
        return sorted(folder or "." for folder in folders)
    folder = folders.pop()
    if folders or not folder:
        return sorted(named)
    try:
        names = [x for x in os.listdir(folder) if x.endswith(SUFFIX) and not x.startswith(".")]
        there = {show_text(os.path.join(folder, x), MAX_PATH) for x in names}
    except OSError:  # made on another machine, or deleted since
        return [folder] if len(named) > MAX_FILES else sorted(named)
    return [folder] if named <= there and len(there - named) == n_withdrawn else sorted(named)


def _plain(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return repr(value)
