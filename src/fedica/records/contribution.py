"""What one client sends. Each field is declared once; checks, files, admission and docs/format.md follow from that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from types import MappingProxyType
from typing import Any

from fedica.arrays import Array, check_atoms, readonly
from fedica.errors import ContributionError, InputError
from fedica.records import checks
from fedica.records.client_names import check_client
from fedica.records.fields import Form, check_fields, checked, declare, declared_fields, optional, set_fields
from fedica.records.stored_atoms import StoredAtoms
from fedica.text import counted


@dataclass(frozen=True, eq=False, repr=False)
class Contribution:
    """What one client sends: its atoms, and a little metadata.

    Parameters
    ----------
    client : str
        Name of the client; unique in a federation.
    atoms : array-like of shape (d, r_k)
        The directions that the client found, one per column, known up to sign and order. Scaled to norm one here.
    n_samples : int or None
        How many samples they were found from, if the client tells.
    features : sequence of str, optional
        Names of the d features.
    solver, study, independence, mixing : str, optional
        How the atoms were found, and for which study.
    reference : str, optional
        The reference of EEG channels; with "average" the mean over the features was subtracted from every atom.
    grid : str, optional
        Where the voxels of an image are: its size, and the rows of its affine.
    gram : array-like of shape (r_k, r_k), optional
        Strengths: the Gram matrix G of the sources' time courses, divided by the number of samples, in the order and
        with the signs of the atoms. ``atoms @ gram @ atoms.T`` is the covariance of the data at rank r_k.
    noise_floor : float, optional
        Median variance of the data along its principal directions; given together with ``gram``.
    uncertain : sequence of int, optional
        Which atoms are not determined by the data: indices of columns.
    persons : int, optional
        From how many persons the samples are.
    preprocessing : mapping of str to str, optional
        How the data was prepared, by the name of each step.
    serial : int, optional
        Number of this message among those of the same client.
    extra : mapping of str to str
        Further metadata, at most 65,536 bytes as JSON. ``reference`` and ``grid``, which fedica 0.1.0 kept here, become
        the fields.

    Raises
    ------
    ContributionError
        If a field cannot be used; the sentence names the client.
    """

    client: str = field(
        metadata=declare(
            Form.TEXT,
            check_client,
            f"name of the client: 1 to {checks.MAX_NAME} characters, not blank, all of them visible; in normal form C",
            required=True,
        )
    )
    atoms: Array = field(
        metadata=declare(
            Form.TENSOR_OR_F32,
            lambda atoms, what: atoms if isinstance(atoms, StoredAtoms) else readonly(check_atoms(atoms, what)),
            "(d, r_k), one atom per column, 1 <= r_k <= d; F32 only since version 2",
            required=True,
        )
    )
    n_samples: int | None = field(
        metadata=declare(
            Form.WHOLE_NUMBER, checks.check_positive, "from how many samples the atoms were found; at least 1"
        )
    )
    _: KW_ONLY
    features: Sequence[str] | None = optional(
        Form.TEXTS, checks.check_features, "names of the d features, distinct, each as a client's name"
    )
    solver: str | None = optional(Form.TEXT, checks.check_name, "how the atoms were found; as a client's name")
    study: str | None = optional(Form.TEXT, checks.check_name, "id of the study; as a client's name", must_agree=True)
    independence: str | None = optional(
        Form.TEXT, checks.check_independence, "`samples` or `features`", must_agree=True
    )
    mixing: str | None = optional(Form.TEXT, checks.check_mixing, "`general` or `orthogonal`", must_agree=True)
    reference: str | None = optional(
        Form.TEXT,
        checks.check_text,
        f"reference of EEG channels, at most {checks.MAX_TEXT} characters. `average`: the mean over the features was "
        "subtracted from every atom, so clients with different features are compared without it",
    )
    grid: str | None = optional(
        Form.TEXT,
        checks.check_text,
        f"size and affine of the image that the voxels are of; at most {checks.MAX_TEXT} characters",
        must_agree=True,
    )
    gram: Array | None = optional(  # noqa: RUF009 - it returns a field
        Form.TENSOR,
        checks.check_gram,
        "(r_k, r_k), Gram matrix G of the sources' time courses divided by the number of samples, in the order and "
        "with the signs of the atoms: atoms G atoms' is the covariance of the data at rank r_k; symmetric "
        f"and positive semidefinite, to {checks.GRAM_TOL:g} of its largest entry",
        since=2,
    )
    noise_floor: float | None = optional(
        Form.NUMBER,
        checks.check_not_negative,
        "median variance of the data along its principal directions, those of variance 0 left out; at least 0; only "
        "with `gram`",
        since=2,
    )
    uncertain: Sequence[int] | None = optional(
        Form.WHOLE_NUMBERS,
        checks.check_indices,
        "indices of the atoms that the data does not determine: 0 to r_k - 1, ascending",
        since=2,
    )
    persons: int | None = optional(
        Form.WHOLE_NUMBER, checks.check_positive, "how many persons the samples are from; at least 1", since=2
    )
    preprocessing: Mapping[str, str] | None = optional(
        Form.OBJECT,
        checks.check_preprocessing,
        f"how the data was prepared, each step by name, sorted; at most {checks.MAX_PREPROCESSING} characters in all",
        since=2,
    )
    serial: int | None = optional(
        Form.WHOLE_NUMBER,
        checks.check_natural,
        "number of this message among those of the same client; the highest counts",
        since=2,
    )
    extra: Mapping[str, str] = field(default_factory=dict, metadata=checked(checks.check_extra))

    def __post_init__(self) -> None:
        try:
            set_fields(self, client=check_client(self.client, "a client's name"))
            who = f"client {self.client!r}"
            check_fields(self, f"{who}: ")
            self._take_from_extra(who, "reference", "grid")
            self._check_sizes(who)
        except InputError as error:
            raise ContributionError(str(error), str(self.client)) from error

    def _take_from_extra(self, who: str, *names: str) -> None:
        """Move what code for fedica 0.1.0 gives as ``extra`` to the fields of these names."""
        for name in names:
            if name in self.extra:
                if getattr(self, name) is not None:
                    raise InputError(f"{who}: {name} is given twice, as a field and in extra. Give the field alone.")
                others = {key: value for key, value in self.extra.items() if key != name}
                value = checks.check_text(self.extra[name], f"{who}: {name}")
                set_fields(self, **{name: value}, extra=MappingProxyType(others))

    def _check_sizes(self, who: str) -> None:
        """Check the fields that must fit the atoms, and each other."""
        if self.n_atoms > self.n_features:
            raise InputError(
                f"{who} sends {self.n_atoms} atoms of {self.n_features} features; a contribution has at most as many "
                "atoms as features."
            )
        if self.features is not None and len(self.features) != self.n_features:
            raise InputError(f"{who} names {len(self.features)} features, but its atoms have {self.n_features}.")
        if self.gram is not None and len(self.gram) != self.n_atoms:
            raise InputError(f"{who}: gram must have a row for each of the {self.n_atoms} atoms; got {len(self.gram)}.")
        if self.noise_floor is not None and self.gram is None:
            raise InputError(f"{who}: noise_floor belongs to gram; got noise_floor alone.")
        if self.uncertain is not None and self.uncertain[-1] >= self.n_atoms:
            raise InputError(f"{who}: uncertain must be indices of its {self.n_atoms} atoms; got {self.uncertain[-1]}.")

    @property
    def n_features(self) -> int:
        """d: the length of each atom."""
        return int(self.atoms.shape[0])

    @property
    def n_atoms(self) -> int:
        """r_k: how many atoms the client found."""
        return int(self.atoms.shape[1])

    def __repr__(self) -> str:
        samples = "samples not declared" if self.n_samples is None else f"{self.n_samples} samples"
        return (
            f"Contribution({self.client!r}: {counted(self.n_atoms, 'atom')} of {self.n_features} features, {samples})"
        )

    def __reduce__(self) -> tuple[Any, tuple[dict[str, Any]]]:
        values = {x.name: getattr(self, x.name) for x in fields(self)}
        return _contribution, ({k: dict(v) if isinstance(v, MappingProxyType) else v for k, v in values.items()},)


def _contribution(values: dict[str, Any]) -> Contribution:
    return Contribution(**values)


CONTRIBUTION_FIELDS = declared_fields(Contribution)
"""What a contribution may hold besides ``extra``, by name."""
