"""What is agreed: the study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from fedica.arrays import check_choice, check_int, check_number
from fedica.errors import InputError
from fedica.records.checks import INDEPENDENCE, MIXING, check_features, check_name

DECLARE_SAMPLES = ("exactly", "rounded", "no")


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
    declare_samples : {"exactly", "rounded", "no"}
        How a client tells how many samples it has.
    """

    id: str
    features: Sequence[str]
    _: KW_ONLY
    units: Sequence[str] | None = None
    scales: Sequence[float] | None = None
    independence: str = "samples"
    mixing: str = "general"
    n_components: int | None = None
    min_samples: int = 2
    declare_samples: str = "exactly"

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "id", check_name(self.id, "a study's id"))
        features = check_features(self.features, "a study's features")
        set_(self, "features", features)
        if self.units is not None:
            set_(self, "units", tuple(map(str, self.units)))
            _check_length(self.units, features, "units")
        if self.scales is not None:
            set_(self, "scales", tuple(check_number(s, "a feature's scale", above=0) for s in self.scales))
            _check_length(self.scales, features, "scales")
        check_choice(self.independence, "independence", INDEPENDENCE)
        check_choice(self.mixing, "mixing", MIXING)
        if self.n_components is not None:
            check_int(self.n_components, "a study's n_components", minimum=1, maximum=len(features))
        check_int(self.min_samples, "a study's min_samples", minimum=2)
        check_choice(self.declare_samples, "declare_samples", DECLARE_SAMPLES)


def _check_length(values: Sequence[object], features: Sequence[str], what: str) -> None:
    if len(values) != len(features):
        raise InputError(f"a study has one of {what} per feature: {len(features)} were wanted, {len(values)} came.")
