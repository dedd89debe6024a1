"""The public names, which ``from fedica import ...`` gives. This is the one list of them."""

# ruff: noqa: PLC0414 - type checkers take "X as X" for a public name

from fedica.exchange import read_aggregate as read_aggregate
from fedica.exchange import read_contribution as read_contribution
from fedica.exchange import write_aggregate as write_aggregate
from fedica.exchange import write_contribution as write_contribution
from fedica.federated import FederatedICA as FederatedICA
from fedica.local import LocalICA as LocalICA
from fedica.local import score as score
from fedica.records import Aggregate as Aggregate
from fedica.records import AtomArray as AtomArray
from fedica.records import Contribution as Contribution
from fedica.records import Scores as Scores
from fedica.records import Study as Study
from fedica.server import aggregate as aggregate
from fedica.server import fill_features as fill_features
from fedica.server import refine as refine
