"""Aggregates -> labelled pandas DataFrames."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedica.exchange import PublicAggregate
from fedica.exchange.tables import component_names, feature_names
from fedica.extras import import_extra
from fedica.records import Aggregate


def to_frame(aggregate: Aggregate | PublicAggregate) -> Any:
    """Return the global mixing matrix as a labelled DataFrame: one row per feature, one column per component.

    Parameters
    ----------
    aggregate : Aggregate or PublicAggregate
        What `fedica.aggregate` or `fedica.read_aggregate` returned.

    Returns
    -------
    pandas.DataFrame of shape (n_features, n_components)
        Rows and columns are named as in ``mixing.csv`` of the result folder: the names of the features, or
        ``feature_0`` and so on; ``component_0`` and so on. ``attrs`` has the method, the independence, and the
        support and spread of each component.

    Examples
    --------
    >>> import numpy as np
    >>> from fedica import Contribution, aggregate
    >>> from fedica.interop import to_frame
    >>> clients = [Contribution(name, np.eye(3)[:, :2], 100, features=["Fz", "Cz", "Pz"]) for name in "abc"]
    >>> float(to_frame(aggregate(clients, 2)).loc["Cz"].max())
    1.0
    """
    pd = import_extra("pandas", "to_frame", "tables")
    frame = pd.DataFrame(
        np.array(aggregate.mixing),
        index=pd.Index(feature_names(aggregate), name="feature"),
        columns=pd.Index(component_names(aggregate), name="component"),
    )
    frame.attrs = {
        "method": aggregate.method,
        "independence": aggregate.terms.independence,
        "support": aggregate.support.tolist(),
        "spread": aggregate.spread.tolist(),
    }
    return frame
