"""What an inbox meets: bits that flip, writers that meet, floods of junk, hostile text in every field.

    python tests/exchange/hostile.py                                        # everything in full, some minutes
    python tests/exchange/hostile.py --flips 500 --writes 60 --junk 500 --texts 40

Each part stops at the first promise that is broken: a flipped bit that passes, half of a file, a good client that is
lost, an exception that is no sentence, text that no terminal should get. The numbers are printed.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import multiprocessing
import os
import random
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedica.cli import app
from fedica.errors import FedicaError
from fedica.exchange import (
    TrustedKeys,
    contribution_to_bytes,
    keygen,
    read_contribution,
    read_folder,
    read_signing_key,
    read_study,
    receive_bytes,
    write_contribution,
    write_folder,
    write_study,
)
from fedica.records import Contribution, Study
from fedica.server import aggregate
from fedica.workflow import combine

FEATURES = tuple(f"f{i}" for i in range(6))
TRUTH = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 3)))[0]
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
TEXTS = (
    *("\x1b[2J\x1b]0;x\x07", "\x9b31m", "a\nError: forged", "a\r\tb", "\u202egnp.exe", "a\u200bb", "\ufeff", "\u3164"),
    *(
        "=1+1",
        "a;=cmd|' /C calc'!A0",
        "@SUM(A1)",
        "-2+3",
        "<script>alert(1)</script>",
        "{{7*7}}",
        "%s%n",
        "$(rm -rf x)",
    ),
    *(
        "../../etc/passwd",
        "CON",
        "a/b",
        "'; DROP TABLE",
        "[" * 5000,
        "x" * 100_000,
        "\0",
        "e\u0301",
        "\ufe0f",
        "[bold]",
    ),
    *("\U000e0041", "\u0430dmin", "ｆｕｌｌ", "NaN", "null", '{"a":1}', '["a"]', "\U0001f3e5", "\u2028", " ", ""),
)
FIELDS = ("client", "features", "solver", "study", "independence", "mixing", "reference", "grid", "n_samples", "serial")
FIELDS += (
    "persons",
    "preprocessing",
    "uncertain",
    "noise_floor",
    "fedica",
    "key",
    "signature",
    "version",
    "extra",
    "file",
)


def good(k: int, **fields: object) -> Contribution:
    noise = 0.02 * np.random.default_rng(k).standard_normal(TRUTH.shape)
    return Contribution(f"good-{k}", TRUTH + noise, 100, features=FEATURES, **fields)


def with_metadata(data: bytes, **metadata: str) -> bytes:
    """Change the metadata of a file, as no writer of ours would."""
    n_header = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + n_header])
    header["__metadata__"] |= metadata
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + n_header :]


def flips(count: int, seed: int) -> str:
    """Flip single bits of a signed file: under the client's trusted key every one of them is refused."""
    with tempfile.TemporaryDirectory() as folder:
        private, _ = keygen("good-0", folder)
        key = read_signing_key(private)
    data = contribution_to_bytes(good(0, study="s", extra={"note": "n"}), key=key)
    trusted = TrustedKeys({"good-0": key.public})
    assert receive_bytes(data, source="whole", trusted=trusted).provenance.verified
    places = random.Random(seed).sample(range(8 * len(data)), min(count, 8 * len(data)))  # noqa: S311
    for place in places:
        changed = bytearray(data)
        changed[place // 8] ^= 1 << place % 8
        try:
            receive_bytes(bytes(changed), source="flipped", trusted=trusted)
        except FedicaError:
            continue
        raise AssertionError(f"bit {place % 8} of byte {place // 8} can change unnoticed")
    return f"{len(places)} of the {8 * len(data)} bits of a signed file flipped: all refused"


def _write_many(task: tuple[str, int, int, str]) -> Counter[str]:
    kind, start, count, path = task
    outcomes: Counter[str] = Counter()
    result = aggregate([good(k) for k in range(3)], 3)
    for i in range(start, start + count):
        try:
            if kind == "contribution":
                write_contribution(replace(good(i), n_samples=i + 1), path)
                outcomes[f"read {read_contribution(path).client[:4]}"] += 1
            elif kind == "study":
                write_study(Study(f"s{i}", FEATURES), path)
                assert read_study(path).features == FEATURES
                outcomes["read a study"] += 1
            else:
                write_folder(replace(result, options={"i": i}), path)
                outcomes["wrote a folder"] += 1
        except FedicaError as error:
            outcomes[re.sub(r"\(.*?\)|/\S+", "...", str(error))[:60]] += 1
    return outcomes


def writes(count: int, seed: int) -> str:
    """Let four processes write to the same names: whoever reads finds something whole; in the end all is whole."""
    outcomes: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("fork").Pool(4) as pool:
        for kind in ("contribution", "study", "folder"):
            path, each = os.path.join(folder, kind), -(-count // 12)
            done = pool.map(_write_many, [(kind, 1000 * w, each, path) for w in range(4)])
            outcomes[kind] = sum(done, Counter())
            {"contribution": read_contribution, "study": read_study, "folder": read_folder}[kind](path)
        left = [name for name in os.listdir(folder) if name.startswith(".") and "fedica" not in name]
    assert not left, left
    told = {kind: dict(counts) for kind, counts in outcomes.items()}
    return f"{sum(x.total() for x in outcomes.values())} concurrent writes: {told}"


def _junk(rng: random.Random, whole: bytes) -> bytes:
    kind = rng.randrange(6)
    if kind == 0:
        return rng.randbytes(rng.choice((0, 1, 7, 8, 100, 1000)))
    if kind == 1:
        return whole[: rng.randrange(len(whole))]
    if kind == 2:
        changed = bytearray(whole)
        changed[rng.randrange(300)] ^= 255
        return bytes(changed)
    if kind == 3:
        return with_metadata(whole, client=rng.choice(TEXTS[:12]))
    return with_metadata(whole, version="9") if kind == 4 else b"PK\3\4" + rng.randbytes(50)


def junk(count: int, seed: int) -> str:
    """Flood an inbox with junk under hostile names: the good clients' result is written, and everything is listed."""
    rng = random.Random(seed)  # noqa: S311 - junk, not secrets
    whole = contribution_to_bytes(replace(good(77), client="junk"))
    with tempfile.TemporaryDirectory() as folder:
        inbox = os.path.join(os.fsencode(folder), b"inbox")
        os.mkdir(inbox)
        names = (b"junk%d", b"\xff\xfe%d", b"a\n%d", b"\x1b[2J%d", "\u202e%d".encode(), b"z" * 200 + b"%d")
        for k in range(count):
            with open(os.path.join(inbox, names[k % len(names)] % k + b".safetensors"), "wb") as stream:
                stream.write(_junk(rng, whole))
        for k in range(5):
            write_contribution(good(k), Path(folder, "inbox", f"good-{k}.safetensors"))
        before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        combined = combine(Path(folder, "inbox"), Path(folder, "result"))
        seconds = time.perf_counter() - started
        found = read_folder(Path(folder, "result"))
        assert sum(name.startswith("good-") for name in found.aggregate.clients) == 5, found.aggregate.clients
        assert len(combined.aggregate.rejected) + len(combined.aggregate.clients) >= count * 0.9
        with open(Path(folder, "result", "rejected.csv"), encoding="utf-8", newline="") as stream:
            n_listed = sum(1 for _ in csv.DictReader(stream))
        assert n_listed == len(combined.aggregate.rejected)
    megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    kinds = Counter(x.kind for x in combined.aggregate.rejected)
    return f"{count} junk files: {dict(kinds)}, 5 good clients kept, {seconds:.1f} s, {megabytes} MB more"


def _hostile_file(field: str, text: str, inbox: Path) -> None:
    data = contribution_to_bytes(good(99))
    if field == "file":
        name = text.replace("\0", "").replace("/", "")[:100] or "x"
        with contextlib.suppress(OSError):
            (inbox / f"{name}.safetensors").write_bytes(data)
        return
    if field == "features":
        metadata = {"features": json.dumps([text, *FEATURES[1:]])}
    elif field == "preprocessing":
        metadata = {"preprocessing": json.dumps({text: text})}
    elif field == "extra":
        metadata = {"note": text, (text or "x")[:100]: text}
    else:
        metadata = {field: text}
    (inbox / "hostile.safetensors").write_bytes(with_metadata(data, **metadata))


def _run(*words: object) -> tuple[int, str]:
    """Run a command in this process; return its exit code and all that it printed."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            app([str(word) for word in words], prog_name="fedica")
        except SystemExit as done:
            return int(done.code or 0), out.getvalue() + said.getvalue()
    return 0, out.getvalue() + said.getvalue()


def texts(count: int, seed: int) -> str:
    """Put each hostile text into each field: the others' result is written, and nothing shown is unprintable."""
    cases = [(field, text) for field in FIELDS for text in TEXTS]
    random.Random(seed).shuffle(cases)  # noqa: S311
    outcomes: Counter[str] = Counter()
    for field, text in cases[:count]:
        with tempfile.TemporaryDirectory() as folder:
            inbox = Path(folder, "inbox")
            inbox.mkdir()
            for k in range(4):
                write_contribution(good(k), inbox / f"good-{k}.safetensors")
            _hostile_file(field, text, inbox)
            code, said = _run("aggregate", inbox, "-o", Path(folder, "result"), "--report")
            assert code == 0, (field, text[:50], said[-500:])
            said += (
                _run("inspect", *sorted(inbox.iterdir()))[1] + _run("inspect", Path(folder, "result/summary.json"))[1]
            )
            found = read_folder(Path(folder, "result")).aggregate
            assert sum(name.startswith("good-") and name != "good-99" for name in found.clients) == 4
            pages = [path.read_text() for path in Path(folder, "result").iterdir() if path.suffix != ".safetensors"]
            for shown in (said, *pages):
                bad = UNPRINTABLE.search(shown)
                assert bad is None, (field, text[:50], shown[max(0, bad.start() - 100) : bad.end() + 50])
                assert "did not expect" not in shown, (field, text[:50], shown)
            outcomes["refused" if found.rejected else "taken"] += 1
    return f"{outcomes.total()} hostile texts in fields: {dict(outcomes)}"


PARTS = {"flips": (flips, 2256), "writes": (writes, 1060), "junk": (junk, 200_000), "texts": (texts, 10_000)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, (function, count) in PARTS.items():
        parser.add_argument(f"--{name}", type=int, default=count, help=f"{function.__doc__} Default: {count}.")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    os.fsync = lambda descriptor: None  # no power is cut here; this saves minutes
    for name, (function, _) in PARTS.items():
        if getattr(arguments, name):
            print(f"{name}: {function(getattr(arguments, name), arguments.seed)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
