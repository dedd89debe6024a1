"""Consensus, our method: its steps (C1) to (C6), one concept per file."""

from fedica.server.consensus.find import UNCLEAR, Consensus, find_consensus, finish_consensus
from fedica.server.consensus.starts import chance_basis, half_distance

__all__ = ["UNCLEAR", "Consensus", "chance_basis", "find_consensus", "finish_consensus", "half_distance"]
