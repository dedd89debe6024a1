"""All attacks by name, with what is known of each beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from fedica.arrays import RandomState, check_choice, check_number
from fedica.errors import OptionError
from fedica.simulate import hidden, hostile, mistakes
from fedica.simulate.atoms import AtomFederation
from fedica.simulate.forging import Server

NO_ATTACK = "none"


@dataclass(frozen=True)
class Attack:
    """An attack, ready to be carried out, and the facts about it.

    Parameters
    ----------
    function : callable
        ``function(federation, share, *, strength, colluding, random_state)``; the third argument of those that need
        one is the server.
    strength : float
        How strong.
    meaning : str
        What strength means.
    colluding : bool
        Whether the attackers agree with one another.
    beyond_spread : bool
        Whether it moves atoms farther than honest clients' errors do, so that a server can see it.
    mistake : bool
        Whether it happens to clients that mean well.
    needs_server : bool
        Whether it tries out the server to find the most harm.
    """

    function: Callable[..., AtomFederation]
    strength: float
    meaning: str
    colluding: bool
    beyond_spread: bool
    mistake: bool = False
    needs_server: bool = False

    def __call__(
        self, federation: AtomFederation, share: float, *, server: Server | None = None, random_state: RandomState = 0
    ) -> AtomFederation:
        """Let a share of the clients attack.

        Parameters
        ----------
        federation : AtomFederation
            Contributions and their truth, which the attackers know.
        share : float
            Share of clients that attack, rounded half up.
        server : callable, optional
            Contributions to a mixing matrix; for the attacks that search for the most harm.
        random_state : int, RandomState, Generator or None
            Seed: who attacks, and how.

        Returns
        -------
        AtomFederation
            With the forged contributions; ``honest`` is False for the attackers.
        """
        if self.needs_server and server is None:
            raise OptionError(
                f"the attack {self.function.__name__!r} searches for the most harm to a server; "
                "give server=, a function from contributions to a mixing matrix."
            )
        arguments = (federation, share, server) if self.needs_server else (federation, share)
        return self.function(*arguments, strength=self.strength, colluding=self.colluding, random_state=random_state)


def _no_attack(federation: AtomFederation, share: float, **_: object) -> AtomFederation:
    """Leave everything as it is: what the methods cost where nobody attacks."""
    return federation


ATTACKS: Mapping[str, Attack] = MappingProxyType(
    {
        NO_ATTACK: Attack(_no_attack, 0, "nothing", False, False),
        "random-bases": Attack(hostile.random_bases, 1, "how much of the true atoms is replaced", False, True),
        "common-basis": Attack(hostile.random_bases, 1, "how much of the true atoms is replaced", True, True),
        "rotation": Attack(hostile.rotation, 30, "angle in degrees", True, True),
        "phantom": Attack(hostile.phantom, 1, "atoms replaced", True, True),
        "flood-false": Attack(hostile.flood_false, 1, "share of atoms that are copies", True, True),
        "flood-true": Attack(hostile.flood_true, 1, "share of atoms that are copies", True, True),
        "bridges": Attack(hostile.bridges, 1, "weight of the second atom", True, True),
        "inflated-samples": Attack(hostile.inflated_samples, 1000, "factor on the declared samples", True, True),
        "alie": Attack(hidden.alie, 1.5, "standard deviations", True, False),
        "alie-optimised": Attack(
            hidden.alie_optimised, 6, "most standard deviations tried", True, False, needs_server=True
        ),
        "inner-product": Attack(hidden.inner_product, 1, "times the honest mean taken off", False, True),
        "mimicry": Attack(hidden.mimicry, 1, "quantile of the honest client copied", True, False),
        "worst-angle": Attack(
            hidden.worst_angle, 90, "largest angle tried, in degrees", True, False, needs_server=True
        ),
        "permuted-channels": Attack(mistakes.permuted_channels, 1, "share of features", False, True, mistake=True),
        "rescaled-channels": Attack(
            mistakes.rescaled_channels, 1, "deviation of the log of a factor", False, True, mistake=True
        ),
        "dropped-component": Attack(mistakes.dropped_component, 1, "components missing", True, False, mistake=True),
        "few-samples": Attack(mistakes.few_samples, 4, "factor on the errors", False, True, mistake=True),
        "strong-noise": Attack(mistakes.strong_noise, 0.5, "length of the added error", False, True, mistake=True),
        "duplicated-clients": Attack(
            mistakes.duplicated_clients, 1, "copies of the same client", False, False, mistake=True
        ),
    }
)
"""Attacks by name; facts that are measured (how far each moves an atom) are asserted in the tests."""


def find_attack(name: str) -> Attack:
    """Return an attack by its name, with another strength after a colon: ``"rotation:15"``.

    Parameters
    ----------
    name : str
        A name of ``ATTACKS``.
    """
    kind, colon, strength = str(name).partition(":")
    attack = ATTACKS[check_choice(kind, "an attack", ATTACKS)]
    if not colon:
        return attack
    if kind == NO_ATTACK:
        raise OptionError(f"the attack 'none' has no strength; {name!r} came.")
    return replace(attack, strength=check_number(strength, f"the strength of the attack {kind!r}", above=0))
