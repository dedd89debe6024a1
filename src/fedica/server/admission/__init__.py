"""Which contributions take part: the terms that are decided, who fits them, and the atoms of those who do."""

from fedica.server.admission.admit import ON_BAD, Admitted, admit
from fedica.server.admission.screen import Refused, Screened, check_not_empty, screen, with_enough_features
from fedica.server.admission.terms import MUST_AGREE, AgreedFeatures, common_features

__all__ = [
    "MUST_AGREE",
    "ON_BAD",
    "Admitted",
    "AgreedFeatures",
    "Refused",
    "Screened",
    "admit",
    "check_not_empty",
    "common_features",
    "screen",
    "with_enough_features",
]
