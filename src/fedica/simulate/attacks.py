"""All attacks by name, with their properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from fedica.arrays import RandomState
from fedica.errors import OptionError
from fedica.simulate import hidden, hostile, informed, mistakes
from fedica.simulate.atoms import AtomFederation
from fedica.simulate.forging import JITTER, Forge, Scene, Server, choose_attackers, most_harmful, read_attack

NO_ATTACK = "none"


@dataclass(frozen=True)
class Attack:
    """An attack with its strength, ready to be carried out, and its properties.

    Parameters
    ----------
    function : callable, optional
        ``function(scene, strength, colluding)`` gives what each attacker sends; None: nobody attacks.
    strength : float
        Strength of the attack; the largest one tried if ``needs_server``; 0: it has none.
    meaning : str
        Unit of the strength.
    colluding : bool
        Whether the attackers coordinate; their atoms then differ by `fedica.simulate.forging.JITTER`.
    beyond_spread : bool
        Whether it moves atoms farther than the errors of honest clients do, so that a server can detect it.
    mistake : bool
        Whether it describes an honest mistake.
    needs_server : bool
        Whether the attackers try strengths on the server and use the most harmful one.
    """

    function: Callable[[Scene, float, bool], Forge] | None
    strength: float
    meaning: str
    colluding: bool
    beyond_spread: bool
    mistake: bool = False
    needs_server: bool = False

    def __call__(
        self, federation: AtomFederation, share: float, *, server: Server | None = None, random_state: RandomState = 0
    ) -> AtomFederation:
        """Return the federation in which a share of the clients attacks.

        Parameters
        ----------
        federation : AtomFederation
            Contributions and their truth, which the attackers know.
        share : float
            Share of clients that attack, rounded half up.
        server : callable, optional
            Function from contributions to a mixing matrix, for attacks that search for the most harm.
        random_state : int, RandomState, Generator or None
            Seed for the choice of attackers and their atoms.

        Returns
        -------
        AtomFederation
            With the forged contributions; ``honest`` is False for the attackers.
        """
        function = self.function
        if function is None:
            return federation
        scene = choose_attackers(federation, share, random_state)

        jitter = JITTER if self.colluding else 0.0
        strongest = function(scene, self.strength, self.colluding)
        if not self.needs_server:
            return scene.send(strongest, jitter=jitter)
        if server is None:
            raise OptionError(
                "this attack searches for the most harm to a server; give server=, a function from contributions to a "
                "mixing matrix."
            )

        def attacked(strength: float) -> AtomFederation:
            return scene.send(function(scene, strength, self.colluding), jitter=jitter)

        return most_harmful(scene, attacked, server, self.strength)


ATTACKS: Mapping[str, Attack] = MappingProxyType(
    {
        NO_ATTACK: Attack(None, 0, "nothing", False, False),
        "random-bases": Attack(hostile.random_bases, 1, "how much of the true atoms is replaced", False, True),
        "common-basis": Attack(hostile.random_bases, 1, "how much of the true atoms is replaced", True, True),
        "rotation": Attack(hostile.rotation, 30, "angle in degrees", True, True),
        "phantom": Attack(hostile.phantom, 1, "atoms replaced", True, True),
        "flood-false": Attack(hostile.flood_false, 1, "share of atoms that are copies", True, True),
        "flood-true": Attack(hostile.flood_true, 1, "share of atoms that are copies", True, True),
        "bridges": Attack(hostile.bridges, 1, "weight of the second atom", True, True),
        "inflated-samples": Attack(hostile.inflated_samples, 1000, "factor on the declared samples", True, True),
        "alie": Attack(hidden.alie, 1.5, "standard deviations", True, False),
        "alie-optimised": Attack(hidden.alie, 6, "most standard deviations tried", True, False, needs_server=True),
        "inner-product": Attack(hidden.inner_product, 1, "multiple of the honest mean subtracted", False, True),
        "mimicry": Attack(hidden.mimicry, 1, "quantile of the honest client copied", True, False),
        "worst-angle": Attack(
            hidden.turned_means, 90, "largest angle tried, in degrees", True, False, needs_server=True
        ),
        "outside-span": Attack(informed.outside_span, 64, "most atoms tried", False, True, needs_server=True),
        "tight-basis": Attack(informed.tight_basis, 0.003, "what the attackers' atoms differ by", True, True),
        "bent-atoms": Attack(informed.bent_atoms, 2, "components turned by 45 degrees", True, True),
        "lean": Attack(informed.lean, 3, "most typical errors tried", True, False, needs_server=True),
        "lean-one": Attack(informed.lean_one, 3, "most typical errors tried", True, False, needs_server=True),
        "added-phantoms": Attack(informed.added_phantoms, 2, "atoms added", True, True),
        "merged-components": Attack(informed.merged_components, 1, "pairs merged", True, True),
        "claims-orthogonal": Attack(mistakes.claims_orthogonal, 0, "nothing", False, False, mistake=True),
        "permuted-channels": Attack(mistakes.permuted_channels, 1, "share of features", False, True, mistake=True),
        "rescaled-channels": Attack(
            mistakes.rescaled_channels, 1, "deviation of the log of a factor", False, True, mistake=True
        ),
        "flipped-maps": Attack(mistakes.flipped_maps, 1, "share of atoms", False, True, mistake=True),
        "shifted-features": Attack(
            mistakes.shifted_features, 1 / 7, "shift, as a share of all features", False, True, mistake=True
        ),
        "noise-alone": Attack(mistakes.noise_alone, 1, "how much is noise", False, True, mistake=True),
        "dropped-component": Attack(mistakes.dropped_component, 1, "components missing", True, False, mistake=True),
        "few-samples": Attack(mistakes.few_samples, 4, "factor on the errors", False, True, mistake=True),
        "strong-noise": Attack(mistakes.strong_noise, 0.5, "length of the added error", False, True, mistake=True),
        "duplicated-clients": Attack(
            mistakes.duplicated_clients, 1, "copies of the same client", False, False, mistake=True
        ),
    }
)
"""Attacks by name; the tests measure the properties that can be measured, such as ``beyond_spread``."""


def find_attack(name: str) -> Attack:
    """Return an attack by its name, with another strength after a colon: ``"rotation:15"``.

    Parameters
    ----------
    name : str
        A name of ``ATTACKS``.
    """
    kind, strength = read_attack(name, {known: attack.strength for known, attack in ATTACKS.items()})
    return replace(ATTACKS[kind], strength=strength)
