"""Consensus, our method: its steps (C1) to (C6), one concept per file."""

from fedica.server.consensus.find import Consensus, find_consensus, finish_consensus
from fedica.server.consensus.starts import UNCLEAR, chance_basis, half_distance

__all__ = ["UNCLEAR", "Consensus", "chance_basis", "find_consensus", "finish_consensus", "half_distance"]
