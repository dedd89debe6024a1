"""The frozen records that pass between the rooms: what is agreed, what is sent, what comes back."""

from fedica.records.aggregate import Aggregate, Certificate, Rejection, Terms
from fedica.records.atom_array import AtomArray
from fedica.records.atom_order import ordered_by_content
from fedica.records.checks import INDEPENDENCE, MAX_NAME, MIXING, check_features, check_name
from fedica.records.client_names import check_client, client_key
from fedica.records.contribution import CONTRIBUTION_FIELDS, Contribution
from fedica.records.reasons import Reason
from fedica.records.scores import GlobalMatrix, Refinement, Scores, fingerprint, fingerprints
from fedica.records.stored_atoms import Piece, StoredAtoms
from fedica.records.study import DECLARE_SAMPLES, OTHER_PREPROCESSING, Study
from fedica.records.trust import IN_DOUBT, ClientTrust, Trust

__all__ = [
    "CONTRIBUTION_FIELDS",
    "DECLARE_SAMPLES",
    "INDEPENDENCE",
    "IN_DOUBT",
    "MAX_NAME",
    "MIXING",
    "OTHER_PREPROCESSING",
    "Aggregate",
    "AtomArray",
    "Certificate",
    "ClientTrust",
    "Contribution",
    "GlobalMatrix",
    "Piece",
    "Reason",
    "Refinement",
    "Rejection",
    "Scores",
    "StoredAtoms",
    "Study",
    "Terms",
    "Trust",
    "check_client",
    "check_features",
    "check_name",
    "client_key",
    "fingerprint",
    "fingerprints",
    "ordered_by_content",
]
