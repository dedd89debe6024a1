"""Reports to look at: the federations that a coordinator may meet, each with what is true of it."""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import tarfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedica import Aggregate, Contribution, aggregate
from fedica.exchange import read_contributions, read_folder, write_contribution, write_folder
from fedica.readers.voxels import voxel_names
from fedica.records import Rejection
from fedica.report import write_report
from fedica.simulate.atoms import atoms_federation
from fedica.simulate.attacks import find_attack

collect_ignore = ["screenshot.py"]  # a script, not a module with doctests
ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / "build" / "screenshots"
AXE = "4.14.0"
HOSTILE_CLIENTS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "</script><script>alert(3)</script>",
    "a-very-long-name-" + "x" * 183,
    "עמית-רחוק-gnp.exe",
    "مستشفى الملك",
    "🔬🧠 brain lab 🇪🇺",
    "{{ 7 * 7 }} ${7*7} %{customdata} <b>bold</b> &amp;",
    "__proto__",
    "$\\frac{1}{0}$",
    "client-plain",
]
HOSTILE_FEATURES = [
    "<script>alert(4)</script>",
    "</style></svg><img src=x onerror=alert(5)>",
    "f" * 200,
    "אלקטרודה\u202e7",
    "🧠",
    "<b>Fz</b> &lt;",
]


def _load(name):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


chromium = _load("chromium")


@dataclass(frozen=True, eq=False)
class Case:
    """A report on disk, its aggregate, and who must be named as outlying."""

    name: str
    path: Path
    aggregate: Aggregate
    outlying: tuple[str, ...]


def blobs(n_images, side=28, seed=0):
    """Smooth unit images as columns: (side * side, n_images)."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side] / side
    images = []
    for _ in range(n_images):
        centre, width = rng.uniform(0.2, 0.8, 2), rng.uniform(0.08, 0.16)
        images.append(np.exp(-((x - centre[0]) ** 2 + (y - centre[1]) ** 2) / (2 * width**2)).ravel())
    return np.linalg.qr(np.column_stack(images))[0]


def image_contributions(n_clients=12, n_images=9, seed=0):
    """Clients that send noisy images, the last two of them noise alone."""
    rng, truth = np.random.default_rng(seed), blobs(n_images)
    return [
        Contribution(
            f"hospital-{k:02d}",
            truth[:, rng.permutation(n_images)] + 0.004 * rng.standard_normal(truth.shape)
            if k < n_clients - 2
            else rng.standard_normal(truth.shape),
            2000,
        )
        for k in range(n_clients)
    ]


def ball_contributions(n_clients=6, n_components=5, shape=(24, 29, 22), seed=0):
    """Clients that send maps over the voxels of an ellipsoid with a hole; the last one sends noise."""
    rng, grid = np.random.default_rng(seed), np.indices(shape)
    centre = (np.array(shape).reshape(3, 1, 1, 1) - 1) / 2
    radius = np.sqrt((((grid - centre) / (0.45 * 2 * centre)) ** 2).sum(axis=0))
    mask = (radius < 1) & (radius > 0.2)
    inside = np.argwhere(mask)
    peaks = inside[rng.choice(len(inside), n_components, replace=False)]
    truth = np.exp(-((inside[:, None] - peaks) ** 2).sum(axis=2) / 18)
    truth /= np.linalg.norm(truth, axis=0)
    names = voxel_names(mask)
    return [
        Contribution(
            f"scanner-{k}",
            truth + (0.1 / np.sqrt(len(inside)) if k < n_clients - 1 else 1) * rng.standard_normal(truth.shape),
            200,
            features=names,
            independence="features",
        )
        for k in range(n_clients)
    ]


def named_federation(clients, features, *, n_components=3, seed=1):
    """Clients and features of these names."""
    drawn = atoms_federation(len(clients), n_components, n_features=len(features), random_state=seed)
    return [replace(c, client=name, features=features) for c, name in zip(drawn.contributions, clients, strict=True)]


def attacked(n_clients=30, n_components=8, share=0.3):
    """Contributions, and the names of those that attack."""
    federation = atoms_federation(n_clients, n_components, n_features=12, condition=3, random_state=4)
    forged = find_attack("random-bases")(federation, share, random_state=5)
    bad = tuple(c.client for c, honest in zip(forged.contributions, forged.honest, strict=True) if not honest)
    return forged.contributions, bad


def _from_folder(folder, name, contributions, n_components, outlying=(), **options):
    """Send the contributions as files, aggregate them, write the result folder and its report."""
    inbox = folder / f"{name}-inbox"
    inbox.mkdir()
    for k, contribution in enumerate(contributions):
        write_contribution(contribution, inbox / f"{k:03d}.safetensors")
    received = list(read_contributions(inbox))
    result = aggregate([x.contribution for x in received], n_components, **options)
    if name == "hostile":
        refused = [Rejection("<i>refused</i>", "its atoms are <b>not finite</b>.", "inbox/<x>.safetensors")]
        result = replace(result, rejected=tuple(refused))
    write_folder(result, folder / name, provenance=[x.provenance for x in received])
    return Case(name, write_report(folder / name), result, outlying)


@pytest.fixture(scope="session")
def make_case(tmp_path_factory):
    """Make a report by its name, once a session."""
    folder, made = tmp_path_factory.mktemp("reports"), {}

    def demo():
        from fedica.cli import app

        ran = CliRunner().invoke(app, ["demo", "-o", str(folder / "demo")])
        assert ran.exit_code == 0, ran.output
        result = read_folder(folder / "demo" / "result").aggregate
        return Case("demo", folder / "demo" / "result" / "report.html", result, ("client-05", "client-12"))

    def attack():
        contributions, bad = attacked()
        return _from_folder(folder, "attack", contributions, 8, bad)

    makers = {
        "demo": demo,
        "attack": attack,
        "alone": lambda: _from_folder(folder, "alone", atoms_federation(1, 5, n_features=6).contributions, 5),
        "large": lambda: _from_folder(folder, "large", atoms_federation(300, 20, n_features=64).contributions, 20),
        "images": lambda: _from_folder(folder, "images", image_contributions(), 9, ("hospital-10", "hospital-11")),
        "slices": lambda: _from_folder(folder, "slices", ball_contributions(), 5, ("scanner-5",)),
        "hostile": lambda: _from_folder(folder, "hostile", named_federation(HOSTILE_CLIENTS, HOSTILE_FEATURES), 3),
        "long": lambda: _from_folder(
            folder,
            "long",
            named_federation(
                [f"University hospital of the town of {k}" for k in range(1, 8)],
                [f"laboratory value number {k} (mean of three days, mmol/l)" for k in range(70)],
                n_components=30,
            ),
            30,
        ),
        "scalp": lambda: _from_folder(
            folder,
            "scalp",
            named_federation(
                [f"lab-{k}" for k in range(1, 8)],
                [
                    "Fp1",
                    "Fp2",
                    "F7",
                    "F3",
                    "Fz",
                    "F4",
                    "F8",
                    "T7",
                    "C3",
                    "Cz",
                    "C4",
                    "T8",
                    "P7",
                    "P3",
                    "Pz",
                    "P4",
                    "P8",
                    "O1",
                    "O2",
                ],
                n_components=4,
            ),
            4,
        ),
    }

    def make(name):
        if name not in made:
            made[name] = makers[name]()
        return made[name]

    return make


@pytest.fixture(scope="session")
def chrome(require):
    """A running Chromium."""
    require("Chromium", not chromium.missing())
    with chromium.browser() as running:
        yield running


@pytest.fixture(scope="session")
def axe(require):
    """The source of axe-core: fetched from npm once, and kept under build/."""
    kept = ROOT / "build" / f"axe-core-{AXE}.min.js"
    if not kept.is_file():
        kept.parent.mkdir(exist_ok=True)
        try:
            packed = subprocess.run(
                ["npm", "pack", f"axe-core@{AXE}", "--silent", "--pack-destination", str(kept.parent)],
                capture_output=True,
                timeout=600,
                check=True,
                env={**os.environ, "npm_config_update_notifier": "false"},
            )
            archive = kept.parent / packed.stdout.decode().split()[-1]
            with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as files:
                kept.write_bytes(files.extractfile("package/axe.min.js").read())
            archive.unlink()
        except (OSError, subprocess.SubprocessError, KeyError, tarfile.TarError):
            require("axe-core", found=False)
    return kept.read_text(encoding="utf-8")
