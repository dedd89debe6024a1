"""How much of each client's variance each component explains: what the strengths of contributions tell."""

from __future__ import annotations

import numpy as np
from scipy.linalg import pinv

from fedica.arrays import Array, IntArray
from fedica.blocks import clients_of
from fedica.server.admission import Admitted


def explained_variance(admitted: Admitted, mixing: Array) -> Array | None:
    """Return the share of each client's variance that each component explains, (K, r), in one sweep over the atoms.

    With B the mixing matrix and C_k = A_k G_k A_k' the covariance that client k sent, component i explains
    ``(B^+ C_k B^+')_ii / tr C_k``: B has unit columns. NaN for a client without strengths; ``None`` where nobody sent
    any. mixing : (d, r).
    """
    if all(gram is None for gram in admitted.grams):
        return None
    inverse = np.asarray(pinv(mixing))

    def of_block(block: Array, own: IntArray) -> tuple[Array]:
        parts = [(k, block[:, part]) for k, part in clients_of(own)]
        return (np.column_stack([shares(inverse @ a, a.T @ a, admitted.grams[k]) for k, a in parts]),)

    (found,) = admitted.atoms.each(of_block, admitted.client_of_atom)
    return np.asarray(found.T)


def shares(coordinates: Array, product: Array, gram: Array | None) -> Array:
    """Return the shares of one client, (r,). coordinates : B^+ A_k, (r, m_k); product : A_k' A_k."""
    if gram is None:
        return np.full(len(coordinates), np.nan)
    gram = gram / max(float(np.abs(gram).max()), 1e-300)
    total = float(np.sum(gram * product))
    return np.asarray(np.maximum((coordinates @ gram * coordinates).sum(axis=1), 0.0) / max(total, 1e-300))
