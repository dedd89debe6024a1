"""The table of what each part of the defence costs."""

from __future__ import annotations

from argparse import Namespace

import defence_cost


def test_each_row_has_the_ratios_of_its_own_federations(monkeypatch):
    """Errors without a part are compared with those of consensus on the same federations, seed by seed."""
    names = list(defence_cost.FEDERATIONS)
    assert len(names) > 1

    def errors_without(job, *_):
        name, seed = job
        ours = 0.1 * (1 + names.index(name) + seed)
        return [ours, ours, ours / 1.1, ours / 1.2]

    monkeypatch.setattr(defence_cost, "parallel", lambda _, jobs, *__: [errors_without(job) for job in jobs])
    text = defence_cost.defence_cost(Namespace(trials=3, jobs=1))
    for number, name in enumerate(names):
        assert f"| {name} | 3 | {0.1 * (2 + number):.4f} | 1.000 | 1.100 | 1.200 |" in text
