"""Measure group ICA beside pooling: people and hostile clients among them, the brains of docs/peers.md, E. coli.

Run it as ``make group``, which writes docs/group.md; ``--quick`` for a look, with numbers that mean little.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import numpy as np
from many_people import N_LARGE, N_LARGE_MAPS, N_LARGE_VOXELS, large_rows
from peer_tasks import CONDITIONS, N_BAD, N_NETWORKS, brains, likeness, networks
from real_sets import ecoli_laboratories, ecoli_projects
from sections import Page
from seeds import parallel, table
from single_client import KINDS, N_BEST, Arena, Search

from fedica import Contribution, LocalICA, aggregate
from fedica.arrays import Array
from fedica.datasets import fetch_ecoli
from fedica.local.strengths import n_maps_to_send
from fedica.matching import match
from fedica.simulate import people
from fedica.simulate.people import PEOPLE
from fedica.simulate.sheet import Sheet

N_MODULES, MATCHED = 92, 0.7
"""Published modules of E. coli, and the correlation from which one is matched."""
N_PEOPLE, N_MAPS, N_SCANS, N_HOSTILE, NOISE = 40, 20, 100, 8, 0.04
"""People-like federations: people, components, scans of each, how many are hostile, and the noise of a voxel."""
N_SINGLE, CUT = 30, 100
"""Clients, one of them hostile; and starts of one job of the search for what it should send."""
SMALL_PEOPLE = {"side": 24, "blob_width": 1.5, "n_maps": 6, "n_scans": 40}
"""People of the search: voxels along a side, and the rest as above."""

INTRODUCTION = """# Group ICA

*Made by `make group`; do not edit.* `method="group"` pools the spans of the clients' maps
([the method](method.md#group-ica-methodgroup)). Compared with one ICA of all data in one place, which a federation
does not have. What consensus finds, which matches maps, stands in [Beside other tools](peers.md) (the same brains)
and in {doc}`the example of E. coli <gallery/plot_ecoli>`.

How many maps a client sends follows from the weights, not from a known answer: **half the rank of its data**, rounded
up. These are the directions above its noise floor; the others would hardly count. (The brains and the people below
send principal directions: the rotation that a client's ICA finds drops out, to rounding.)
"""


def main() -> None:
    """Run all sections and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="seeds of E. coli; brains and people take at most three")
    parser.add_argument("--people", type=int, action="append", help="how many people the large cases have")
    parser.add_argument("--folder", type=Path, default=Path(gettempdir()), help="for the files of the large cases")
    parser.add_argument("--quick", action="store_true", help="one seed")
    PAGE.add_options(parser, "docs/group.md")
    options = parser.parse_args()
    if options.quick:
        options.seeds = 1
    PAGE.write(options)


def half_of_rank(client: str, rows: Array) -> Contribution:
    """Send half as many maps as the rank of the data, with their strengths: what `fedica local` does by default."""
    n_maps = n_maps_to_send(rows)
    local = LocalICA(n_maps, independence="features", max_iter=30, random_state=0)  # its rotation drops out
    return local.fit(rows).contribution(client, strengths=True)


def principal(client: str, rows: Array) -> Contribution:
    """Send what `half_of_rank` sends up to a rotation, which drops out, without the time of an ICA."""
    centred = rows - rows.mean(axis=0)
    _, values, right = np.linalg.svd(centred, full_matrices=False)
    variances = values[: len(rows) - 1] ** 2 / len(rows)
    m = len(rows) // 2
    floor = float(np.median(variances))
    return Contribution(
        client, right[:m].T, len(rows), independence="features", gram=np.diag(variances[:m]), noise_floor=floor
    )


def n_matched(maps: Array) -> int:
    """Count the published modules that the maps match."""
    both = [m - m.mean(axis=0) for m in (fetch_ecoli().published, maps)]
    published, found = (m / np.linalg.norm(m, axis=0) for m in both)
    return int((np.abs(published.T @ found).max(axis=1) > MATCHED).sum())


def ecoli_counts(seed: int) -> list[list[int]]:
    """Return the modules that group and pooled ICA match, and how many are outlying, per federation."""
    pooled = LocalICA(N_MODULES, independence="features", solver="fastica", random_state=seed)
    n_pooled = n_matched(pooled.fit(fetch_ecoli().expression).atoms_)
    rows = []
    for arrays in (ecoli_laboratories(), ecoli_projects()):
        sent = [half_of_rank(name, own) for name, own in arrays.items()]
        group = aggregate(sent, N_MODULES, method="group", random_state=seed)
        rows.append([n_matched(group.mixing), n_pooled, len(group.trust.named("outlying"))])
    return rows


def ecoli(options: argparse.Namespace) -> str:
    """E. coli, by laboratories and by projects."""
    counts = np.array(parallel(ecoli_counts, range(options.seeds), options.jobs, "E. coli"))
    lines = [
        [
            name,
            *(f"{np.median(row):.0f} ({row.min()} to {row.max()})" for row in counts[:, k, :2].T),
            counts[:, k, 2].max(),
        ]
        for k, name in enumerate(("five laboratories", "twenty projects"))
    ]
    return f"""\
Of {N_MODULES} published modules, how many are matched with an absolute correlation above {MATCHED}: median of
{options.seeds} seeds, and the range; {N_MODULES} components. *Outlying*: clients that group called so, at most.

{table(["", "group", "pooled FastICA", "outlying"], lines)}"""


def brain_likeness(seed: int) -> list[list[float]]:
    """Return, for each condition, the likeness of group and of pooled ICA, and the shares that are named."""
    maps, mask = networks(np.random.default_rng(seed))
    rows = []
    for condition in CONDITIONS:
        images = brains(maps, mask, condition, np.random.default_rng(100 + seed))
        scans = [np.asarray(image.dataobj, dtype=float)[mask].T for image in images]
        group = aggregate([principal(f"{k:02}", x) for k, x in enumerate(scans)], N_NETWORKS, method="group")
        pooled = LocalICA(N_NETWORKS, independence="features", random_state=0).fit(np.concatenate(scans)).atoms_
        named = np.isin(group.trust.verdict, ("outlying", "weak"))
        found = [likeness(m.T, maps) for m in (group.mixing, pooled)]
        rows.append([*found, named[:N_BAD].mean(), named[N_BAD:].mean()])
    return rows


def peers(options: argparse.Namespace) -> str:
    """Return the section on the brains of docs/peers.md."""
    n_draws = min(options.seeds, 3)
    means = np.mean(parallel(brain_likeness, range(n_draws), options.jobs, "brains"), axis=0)
    lines = [
        [c.name, *(f"{x:.3f}" for x in row[:2]), f"{row[2]:.0%}" if c.fault else "", f"{row[3]:.0%}"]
        for c, row in zip(CONDITIONS, means, strict=True)
    ]
    return f"""\
The first task of [Beside other tools](peers.md): mean likeness of the maps to the true networks over {n_draws} draws.
*Bad named*: bad people who are called outlying or weak; *good named*: all others who are (without bad people, of the
last 21).

{table(["", "group", "pooled", "bad named", "good named"], lines)}"""


def _random(federation: Array, c: Contribution, rng: np.random.Generator, common: np.random.Generator) -> Contribution:
    return replace(c, atoms=rng.standard_normal(c.atoms.shape))


def _wrong(federation: Array, c: Contribution, rng: np.random.Generator, common: np.random.Generator) -> Contribution:
    basis = np.linalg.qr(common.standard_normal(c.atoms.shape))[0]
    return replace(c, atoms=basis + 1e-4 * rng.standard_normal(basis.shape), noise_floor=0.0)


def _planted(federation: Array, c: Contribution, rng: np.random.Generator, common: np.random.Generator) -> Contribution:
    basis = np.linalg.qr(np.column_stack([federation, common.standard_normal(len(federation))]))[0]
    return replace(c, atoms=basis + 1e-4 * rng.standard_normal(basis.shape), gram=None, noise_floor=None)


def _inflated(
    federation: Array, c: Contribution, rng: np.random.Generator, common: np.random.Generator
) -> Contribution:
    return replace(_random(federation, c, rng, common), gram=1e6 * np.asarray(c.gram))


def _flood(federation: Array, c: Contribution, rng: np.random.Generator, common: np.random.Generator) -> Contribution:
    direction = common.standard_normal((len(federation), 1)) + 1e-4 * rng.standard_normal((len(federation), 1))
    return replace(c, atoms=direction, gram=np.full((1, 1), 1e6), noise_floor=0.0)


ATTACKS: dict[str, Callable[..., Contribution] | None] = {
    "nobody": None,
    "random spans": _random,
    "one common wrong span": _wrong,
    "the true span and a planted direction": _planted,
    "random spans, strengths times a million": _inflated,
    "a flood of one direction": _flood,
    "copies of one honest client": lambda federation, c, rng, common: c,
}


def scans_of(contributions: Sequence[Contribution], n_scans: int, rng: np.random.Generator) -> list[Array]:
    """Simulate the scans of people with these maps: own time courses, own strengths of the maps, noise."""
    scans = []
    for c in contributions:
        courses = rng.standard_normal((n_scans, c.n_atoms)) * rng.uniform(0.7, 1.3, c.n_atoms)
        scans.append(courses @ c.atoms.T + NOISE * rng.standard_normal((n_scans, c.n_features)))
    return scans


def people_likeness(seed: int) -> list[list[float]]:
    """Return for each attack the likeness of group and of pooled ICA of the honest, and the shares outlying."""
    federation = people(N_PEOPLE, N_MAPS, random_state=seed)
    scans = scans_of(federation.contributions, N_SCANS, np.random.default_rng(seed))
    sent = [principal(c.client, x) for c, x in zip(federation.contributions, scans, strict=True)]
    pooled = {
        n_bad: LocalICA(N_MAPS, independence="features", random_state=0).fit(np.concatenate(scans[n_bad:])).atoms_
        for n_bad in (0, N_HOSTILE)
    }
    rows = []
    for forge in ATTACKS.values():
        n_bad = 0 if forge is None else N_HOSTILE
        bad = (
            []
            if forge is None
            else [
                forge(federation.mixing, sent[-1], np.random.default_rng((seed, k)), np.random.default_rng(seed))
                for k in range(n_bad)
            ]
        )
        named = [replace(x, client=sent[k].client) for k, x in enumerate(bad)]
        result = aggregate([*named, *sent[n_bad:]], N_MAPS, method="group")
        out = np.array(result.trust.verdict) == "outlying"
        likes = [float(match(m, federation.mixing).cosines.mean()) for m in (result.mixing, pooled[n_bad])]
        rows.append([*likes, out[:n_bad].mean() if n_bad else 0.0, out[n_bad:].mean()])
    return rows


def hostile(options: argparse.Namespace) -> str:
    """Return the section on people-like federations, with and without hostile clients."""
    n_draws = min(options.seeds, 3)
    means = np.mean(parallel(people_likeness, range(n_draws), options.jobs, "people"), axis=0)
    lines = [
        [name, f"{row[0]:.3f}", f"{row[1]:.3f}", f"{row[2]:.0%}" if forge else "", f"{row[3]:.0%}"]
        for (name, forge), row in zip(ATTACKS.items(), means, strict=True)
    ]
    return f"""\
{N_PEOPLE} people of `fedica.simulate.people` ("fmri"), {N_MAPS} components, {N_SCANS} scans each; {N_HOSTILE} of them
are hostile. Mean likeness to the true components over {n_draws} draws; *pooled, honest* is one ICA of the data of all
honest people: it knows who is hostile.

{table(["hostile clients send", "group", "pooled, honest", "hostile outlying", "honest outlying"], lines)}"""


def small_people(seed: int) -> tuple[list[Contribution], int]:
    """Return what people send, and the number of components: few voxels, so that a search is quick."""
    law = replace(PEOPLE["fmri"], sheet=Sheet(SMALL_PEOPLE["side"], 0.9), blob_width=SMALL_PEOPLE["blob_width"])
    federation = people(N_SINGLE, SMALL_PEOPLE["n_maps"], kind=law, random_state=seed)
    scans = scans_of(federation.contributions, SMALL_PEOPLE["n_scans"], np.random.default_rng(seed))
    return [principal(f"{k:02}", x) for k, x in enumerate(scans)], SMALL_PEOPLE["n_maps"]


def good_brains(seed: int) -> tuple[list[Contribution], int]:
    """Return what the people of docs/peers.md send who are good, and the number of networks."""
    maps, mask = networks(np.random.default_rng(seed))
    images = brains(maps, mask, CONDITIONS[0], np.random.default_rng(100 + seed))
    scans = [np.asarray(image.dataobj, dtype=float)[mask].T for image in images]
    return [principal(f"{k:02}", x) for k, x in enumerate(scans)], N_NETWORKS


def searched(job: tuple[Callable[[int], tuple[list[Contribution], int]], range]) -> list[list[object]]:
    """Return for each start its kind, how far it moved each component, and how far leaving out a client does."""
    federation, starts = job
    arena = Arena.of(*federation(0))
    attacks = Search(arena, starts.start).run(starts, N_STEPS, N_MORE)
    return [[x.kind, x.moved, arena.left_out.max(axis=0)] for x in attacks]


SEARCHED = {"people": (small_people, 200), "brains": (good_brains, 200)}
"""Federations of the search, one of whose clients is hostile, and starts."""
N_STEPS, N_MORE = 30, 40
"""Random steps of each start, and of the best ones after that."""


def single(options: argparse.Namespace) -> str:
    """Return the section on one hostile client that knows the code."""
    lines = []
    for name, (federation, n_most) in SEARCHED.items():
        n_starts = 16 if options.quick else n_most
        jobs = [(federation, range(a, min(a + CUT, n_starts))) for a in range(0, n_starts, CUT)]
        rows = [row for part in parallel(searched, jobs, options.jobs, f"one client, {name}") for row in part]
        moved, left_out = (np.array([row[i] for row in rows]) for i in (1, 2))
        worst = int(np.argmax((moved / left_out).max(axis=1)))
        span = f"{left_out[0].min():.1f} to {left_out[0].max():.1f}"
        ratio = f"{(moved / left_out).max():.2f}"
        lines.append([name, n_starts, span, f"{moved.max():.1f}", ratio, rows[worst][0]])
        print(*lines[-1], flush=True)
    heading = ["", "starts", "an honest client, degrees", "the hostile one, degrees", "ratio", "that start"]
    return f"""How far can a single client move a component, whatever it sends? {N_SINGLE} clients, one of them hostile.
A search over messages (`benchmarks/single_client.py`) starts from {len(KINDS)} kinds: the best ones to first order
(*response*), random spans, the true span with directions planted or taken from the *edge* of what clients share,
components *turned* towards own directions or *bent* so that the ICA turns, and what an honest client sent. {N_STEPS}
random steps follow, and {N_MORE} more from the {N_BEST} best of {CUT} starts, judged by `aggregate` itself.
*An honest client*: how far leaving out one of the {N_SINGLE - 1} honest clients moves each component, at most over
these clients; from the component that moves least to the one that moves most. (Where an answer is off by noise, no
method makes this small: (G11) of [the method](method.md#group-ica-methodgroup).) *The hostile one*: how far its joining
moves a component, at most over components and starts. *Ratio*: the same over what an honest client does to that very
component. People of {SMALL_PEOPLE["side"] ** 2} voxels, {SMALL_PEOPLE["n_maps"]} components; the brains of
[Beside other tools](peers.md), all good.

{table(heading, lines)}"""


def large(options: argparse.Namespace) -> str:
    """Return the section on memory, passes and growth."""
    rows = large_rows(_large_people(options), options.folder)
    return f"""\
People who send {N_LARGE_MAPS} maps of {N_LARGE_VOXELS:,} voxels each, with strengths, in one mapped file of single
precision (`AtomArray`); {N_LARGE} components. *Seconds* are wall clock on two cores that others used too; *on cores*,
the time that the cores worked for it, in all and *per person*. *Peak*: memory of the whole process, the pages of the
file that it just read included. *Passes* over the file. Nothing is written besides the file.

{table(LARGE_HEADING, [_large_line(row) for row in rows])}"""


def large_by_command(options: argparse.Namespace) -> str:
    """Return the section on the same people, each with a file of their own."""
    rows = large_rows(_large_people(options), options.folder, by_command=True)
    disk = [(row["bytes"], row["temporary_bytes"], row["result_bytes"]) for row in rows]
    lines = [
        [*_large_line(row), *(f"{n_bytes / 1e9:.1f}" for n_bytes in (own[1], sum(own)))]
        for row, own in zip(rows, disk, strict=True)
    ]
    return f"""\
The same people, each with a contribution of their own (`--float32`), through `fedica aggregate INBOX --method group`.
What exceeds 256 MB in memory goes to one temporary file, in the precision in which it was sent, and is read there in
the order that the method wants. *Passes*: one over the contributions, which are checked and put aside, the others over
that file; the sentence that the command ends with takes one more. *Temporary*: GB of that file. *Disk*: all that lies
there at once: contributions, that file and the result, which has no details.safetensors where the maps are too many
for it. The other columns are as above.

{table([*LARGE_HEADING, "temporary GB", "disk GB"], lines)}"""


LARGE_HEADING = ["people", "GB of maps", "seconds", "on cores", "per person", "peak GB", "passes", "likeness"]


def _large_people(options: argparse.Namespace) -> list[int]:
    return options.people or ([10, 20] if options.quick else [50, 100, 200])


def _large_line(row: dict[str, Any]) -> list[object]:
    """Return a row of the tables of large cases, under their common heading."""
    return [
        f"{row['people']:,}",
        f"{row['bytes'] / 1e9:.1f}",
        f"{row['seconds']:.0f}",
        f"{row['core_seconds']:.0f}",
        f"{row['core_seconds'] / row['people']:.2f}",
        f"{row['peak_mb'] / 1000:.2f}",
        row["passes"],
        f"{row['likeness']:.3f}",
    ]


PAGE = Page(
    INTRODUCTION,
    {
        "people": ("People, and hostile clients among them", hostile),
        "brains": ("Thirty brains", peers),
        "ecoli": ("Gene modules of E. coli", ecoli),
        "single": ("One hostile client that knows the code", single),
        "large": ("Many people", large),
        "command": ("Many people, through the command", large_by_command),
    },
    of=("blocks", "ica", "server"),
)


if __name__ == "__main__":
    main()
