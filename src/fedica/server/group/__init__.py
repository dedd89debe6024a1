"""Group ICA in one message: the spans of the clients' maps are pooled; (G2) to (G11) of docs/method.md."""

from fedica.server.group.find import choose_n_directions, find_group
from fedica.server.group.verdicts import judge_group

__all__ = ["choose_n_directions", "find_group", "judge_group"]
