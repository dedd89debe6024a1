"""What is agreed: the study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

from fedica.arrays import check_choice, check_int, check_number
from fedica.errors import InputError
from fedica.records.checks import (
    check_features,
    check_independence,
    check_mixing,
    check_name,
    check_positive,
    check_preprocessing,
    check_text,
)
from fedica.records.fields import check_fields, checked

DECLARE_SAMPLES = ("exactly", "rounded", "no")
YES_OR_NO = ("yes", "no")
OTHER_PREPROCESSING = ("name", "refuse")
OWN_STEPS = ("transpose",)
"""Steps of a preparation that concern how a client's own file lies: they may differ."""


@dataclass(frozen=True, eq=False)
class Study:
    """What all clients must agree on before they fit.

    Parameters
    ----------
    id : str
        Name of the study; it travels in every contribution.
    features : sequence of str
        The features, in order.
    units : sequence of str, optional
        Unit of each feature.
    scales : sequence of float, optional
        A common factor for each feature, the same at every client. Cosines between atoms depend on units, so a client
        that scales its own columns makes its atoms incomparable.
    independence : {"samples", "features"}
        Over what the sources are independent.
    mixing : {"general", "orthogonal"}
        What is known of the mixing matrix.
    n_components : int, optional
        How many components every client fits.
    min_samples : int
        A client with fewer samples does not send anything.
    min_persons : int, optional
        A client whose samples are from fewer persons, or that does not know of how many, does not send anything.
    declare_samples : {"exactly", "rounded", "no"}
        How a client tells how many samples it has.
    grid : str, optional
        Of features that are voxels: size and affine of the mask, as in `Contribution`.
    preprocessing : mapping of str to str, optional
        How all clients prepare their data, by the options of `fedica.readers.ReadOptions`: reference, filter, types of
        channels and so on. Clients follow it.
    other_preprocessing : {"name", "refuse"}, optional
        What becomes of a client that prepares its data otherwise, or does not tell how: it counts, and is named; or it
        is refused. Not said: options that contradict the study are refused, and contributions are named.
    strengths : {"yes", "no"}, optional
        Whether clients send the strengths of their atoms, which ``method="group"`` uses. Not said: they do not.
    """

    id: str = field(metadata=checked(check_name))
    features: Sequence[str] = field(metadata=checked(check_features))
    _: KW_ONLY
    units: Sequence[str] | None = field(default=None, metadata=checked(lambda units, _: tuple(map(str, units))))
    scales: Sequence[float] | None = field(
        default=None,
        metadata=checked(lambda scales, _: tuple(check_number(x, "a feature's scale", above=0) for x in scales)),
    )
    independence: str = field(default="samples", metadata=checked(check_independence))
    mixing: str = field(default="general", metadata=checked(check_mixing))
    n_components: int | None = field(default=None, metadata=checked(check_positive))
    min_samples: int = field(default=2, metadata=checked(lambda value, what: check_int(value, what, minimum=2)))
    min_persons: int | None = field(default=None, metadata=checked(check_positive))
    declare_samples: str = field(
        default="exactly", metadata=checked(lambda value, what: check_choice(value, what, DECLARE_SAMPLES))
    )
    grid: str | None = field(default=None, metadata=checked(check_text))
    preprocessing: Mapping[str, str] | None = field(default=None, metadata=checked(check_preprocessing))
    other_preprocessing: str | None = field(
        default=None, metadata=checked(lambda value, what: check_choice(value, what, OTHER_PREPROCESSING))
    )
    strengths: str | None = field(
        default=None, metadata=checked(lambda value, what: check_choice(value, what, YES_OR_NO))
    )

    def __post_init__(self) -> None:
        check_fields(self, "a study's ")
        for name in ("units", "scales"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.features):
                raise InputError(
                    f"a study's {name} must be one per feature: expected {len(self.features)}, got {len(values)}."
                )
        if self.n_components is not None:
            check_int(self.n_components, "a study's n_components", minimum=1, maximum=len(self.features))

    def other_step(self, preprocessing: Mapping[str, str] | None) -> dict[str, str] | None:
        """Return the first step of preparing data that a client did otherwise than the study says.

        Parameters
        ----------
        preprocessing : mapping of str to str, optional
            What the client declares; ``None`` or empty: it does not tell.

        Returns
        -------
        dict or None
            ``step``, its ``value`` and what is ``agreed``, all empty if the client does not tell. ``None`` if it is as
            the study says, or the study says nothing.
        """
        agreed = {name: text for name, text in (self.preprocessing or {}).items() if name not in OWN_STEPS}
        own = {name: text for name, text in (preprocessing or {}).items() if name not in OWN_STEPS}
        if own == agreed or self.preprocessing is None:
            return None
        if not own:
            return {"step": "", "value": "", "agreed": ""}
        step = next(name for name in sorted({*own, *agreed}) if own.get(name) != agreed.get(name))
        return {"step": step, "value": own.get(step, "not said"), "agreed": agreed.get(step, "said")}
