"""Distributions of sources by name: functions from a random generator and a size to independent draws.

Every law has mean zero and, where its variance is finite, variance one, so that noise levels are comparable. (The
paper's Bernoulli(0.1) x N(0, 1) is not scaled; ICA is invariant to the scale.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import numpy as np

from fedica.arrays import Array, check_choice, check_number
from fedica.errors import OptionError

Size = int | tuple[int, ...]
Law = Callable[[np.random.Generator, Size], Array]


def bernoulli_gaussian(rng: np.random.Generator, size: Size, *, sparsity: float = 0.1) -> Array:
    """Draw B W / sqrt(sparsity): zero with probability 1 - sparsity, or Gaussian. Excess kurtosis 3 / sparsity - 3."""
    draws = np.zeros(size)
    hit = rng.random(size, dtype=np.float32) < sparsity
    draws[hit] = rng.standard_normal(np.count_nonzero(hit)) / np.sqrt(sparsity)
    return draws


def laplace(rng: np.random.Generator, size: Size) -> Array:
    """Draw from the double exponential law. Excess kurtosis 3."""
    return np.asarray(rng.laplace(scale=np.sqrt(0.5), size=size))


def logistic(rng: np.random.Generator, size: Size) -> Array:
    """Draw from the logistic law. Excess kurtosis 1.2."""
    return np.asarray(rng.logistic(scale=np.sqrt(3) / np.pi, size=size))


def student_t(rng: np.random.Generator, size: Size, *, df: float = 5.0) -> Array:
    """Draw from Student's t; scaled to variance one for df > 2. Excess kurtosis 6 / (df - 4) for df > 4."""
    return np.asarray(rng.standard_t(df, size=size)) * (np.sqrt(1 - 2 / df) if df > 2 else 1.0)


def exponential(rng: np.random.Generator, size: Size) -> Array:
    """Draw from the exponential law, centred: skewed. Excess kurtosis 6."""
    return np.asarray(rng.standard_exponential(size=size)) - 1.0


def uniform(rng: np.random.Generator, size: Size) -> Array:
    """Draw uniformly from an interval around zero: sub-Gaussian. Excess kurtosis -1.2."""
    return np.asarray(rng.uniform(-np.sqrt(3), np.sqrt(3), size=size))


def sinusoid(rng: np.random.Generator, size: Size) -> Array:
    """Draw the sine of a uniform phase: sub-Gaussian. Excess kurtosis -1.5."""
    return np.asarray(np.sqrt(2) * np.sin(rng.uniform(0, 2 * np.pi, size=size)))


def gaussian(rng: np.random.Generator, size: Size) -> Array:
    """Draw from the normal law, which ICA cannot separate. Excess kurtosis 0."""
    return np.asarray(rng.standard_normal(size=size))


LAWS: Mapping[str, Law] = MappingProxyType(
    {
        "bernoulli-gaussian": bernoulli_gaussian,
        "laplace": laplace,
        "logistic": logistic,
        "student-t": student_t,
        "exponential": exponential,
        "uniform": uniform,
        "sinusoid": sinusoid,
        "gaussian": gaussian,
    }
)

_PARAMETER: Mapping[str, tuple[str, float]] = {
    "bernoulli-gaussian": ("sparsity", float(np.nextafter(1, 2))),
    "student-t": ("df", np.inf),
}
"""The parameter of each law that has one, and its exclusive upper bound."""


def find_law(law: str | Law) -> Law:
    """Return a law by its name, with its parameter after a colon: ``"bernoulli-gaussian:0.3"``, ``"student-t:3"``.

    Parameters
    ----------
    law : str or callable
        A name of ``LAWS``, or a function ``(rng, size) -> draws``, which is returned unchanged.
    """
    if callable(law):
        return law
    name, colon, value = str(law).partition(":")
    check_choice(name, "a source law", LAWS)
    if not colon:
        return LAWS[name]
    if name not in _PARAMETER:
        raise OptionError(f"the source law {name!r} has no parameter; got {law!r}. Laws with one: {[*_PARAMETER]}.")
    parameter, below = _PARAMETER[name]
    number = check_number(value, f"the {parameter} of the source law {name!r}", above=0, below=below)
    return partial(LAWS[name], **{parameter: number})
