"""Feed mutated files to the readers: each must give a valid record or a FedicaError, soon and in little memory.

    python tests/exchange/fuzz.py --count 200000                      # read_contribution, a few minutes on one core
    python tests/exchange/fuzz.py --count 20000 --reader details      # also aggregate, scores, study, key, inspect, all

It stops at the first file that breaks a promise, keeps that file, and prints how to repeat it.
"""

from __future__ import annotations

import argparse
import faulthandler
import io
import json
import os
import pickle
import random
import shutil
import socket
import sys
import tempfile
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import deserialize

import fedica.records
from fedica import exchange
from fedica.errors import FedicaError
from fedica.exchange.contributions import CONTRIBUTION
from fedica.report import render_report
from fedica.workflow import inspect_file
from fedica.workflow.inspect import Inspected

GOLDEN = Path(__file__).parent / "golden"
MAX_SECONDS = 1.0  # processor time of this process
MAX_MEGABYTES = 200.0


# ---- mutations of bytes -------------------------------------------------------------------------------------------


def truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def flip_bits(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8, 64))):
        changed[_place(len(data), rng)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def set_bytes(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 2, 8))):
        changed[_place(len(data), rng)] = rng.choice((0, 1, 0x22, 0x5B, 0x5C, 0x7B, 0x7D, 0x7F, 0x80, 0xFF))
    return bytes(changed)


def insert_bytes(data: bytes, rng: random.Random) -> bytes:
    at = _place(len(data), rng)
    return data[:at] + rng.randbytes(rng.choice((1, 2, 8, 100))) + data[at:]


def delete_bytes(data: bytes, rng: random.Random) -> bytes:
    at = _place(len(data), rng)
    return data[:at] + data[at + rng.choice((1, 2, 8, 100)) :]


def repeat_part(data: bytes, rng: random.Random) -> bytes:
    start = _place(len(data), rng)
    part = data[start : start + rng.choice((1, 8, 64, 512))]
    return data[:start] + part * rng.choice((2, 3, 100)) + data[start:]


def append(data: bytes, rng: random.Random) -> bytes:
    return data + rng.choice((b"\0", b"\0" * 8, data, rng.randbytes(64)))


def header_length(data: bytes, rng: random.Random) -> bytes:
    true = int.from_bytes(data[:8], "little")
    value = rng.choice((0, 1, 7, 8, true - 8, true + 8, len(data), 2**20, 2**31, 2**40, 2**63, 2**64 - 1))
    return (value % 2**64).to_bytes(8, "little") + data[8:]


# ---- mutations of the header --------------------------------------------------------------------------------------

_NUMBERS: tuple[object, ...] = (
    *(-1, 0, 1, 2, 3, 7, 8, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, 10**15, 10**100, 1.5, -0.0, 1e308),
    *(None, True, "8", [], {}),
)
_TEXTS: tuple[str, ...] = (
    *("", "0", "1", "2", "-1", "1e9", "0x10", "1_000", "٣", " 5", "9" * 18, "9" * 19, "9" * 5000, "nan", "null"),
    *("[]", "{}", "[[]]", '[""]', '["a"]', '["a","a"]', "[1,2]", '["a",', '["\\ud800"]', "[" * 2000, '["x\\u0000"]'),
    *("a\0b", "\n", "\x1b[31m", "\x7f", "../../etc/passwd", "=1+1", "é" * 300, "\u202e", "samples", "features"),
    *("general", "orthogonal", "fedica.contribution", "fedica.aggregate", "fedica.details"),
)
_DTYPES = ("F64", "F32", "I64", "BOOL", "BF16", "F8_E4M3", "f64", "", "F64\0")


def edit_header(data: bytes, rng: random.Random) -> bytes:
    """Change the header as JSON, and write it back with the right length: what lies behind the first checks."""
    n_header = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + n_header])
    for _ in range(rng.choice((1, 1, 2, 4))):
        _edit(header, rng)
    return _with_header(json.dumps(header, ensure_ascii=rng.random() < 0.5).encode(), data[8 + n_header :], rng)


def edit_header_text(data: bytes, rng: random.Random) -> bytes:
    """Change the header as text: repeated names, deep nesting, white space, constants that are not JSON."""
    n_header = int.from_bytes(data[:8], "little")
    text = data[8 : 8 + n_header].decode().rstrip()
    old, new = rng.choice(
        (
            ('"__metadata__"', '"__metadata__":{},"__metadata__"'),
            ('"client":', '"client":"twin","client":'),
            ('"shape":[', '"shape":[1],"shape":['),
            ("}", "}" * rng.choice((2, 50))),
            ("{", "{" * rng.choice((2, 50, 5000))),
            ("[", "[" * rng.choice((2, 50, 100_000))),
            (":", rng.choice((" : ", ":\n", "::", ":NaN,"))),
            (",", rng.choice((",,", ", ", ",\t", ",\v"))),
            ('"', rng.choice(("'", '\\"', '"\\u', '"\\ud800', '"\\x', '"\0'))),
        )
    )
    places = [i for i in range(len(text)) if text.startswith(old, i)]
    at = rng.choice(places) if places else 0
    return _with_header((text[:at] + new + text[at + len(old) :]).encode(), data[8 + n_header :], rng)


def edit_numbers(data: bytes, rng: random.Random) -> bytes:
    """Change the tensors' numbers: NaN, infinities, zeros, norms that are nearly one."""
    n_header = int.from_bytes(data[:8], "little")
    body = bytearray(data[8 + n_header :])
    numbers = np.frombuffer(body, np.float64, len(body) // 8)
    scale = rng.choice((1 + 1e-7, 1 + 1e-5, 0.0, -1.0, 2.0, 1e300, 5e-324))
    with np.errstate(all="ignore"):
        if rng.random() < 0.3:
            numbers *= scale
        else:
            numbers[rng.randrange(len(numbers))] = rng.choice((np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300, 5e-324))
    return data[: 8 + n_header] + bytes(body)


def _edit(header: dict[str, object], rng: random.Random) -> None:
    metadata = header.get("__metadata__")
    tensors = [spec for name, spec in header.items() if name != "__metadata__" and isinstance(spec, dict)]
    choice = rng.randrange(9)
    if choice <= 3 and isinstance(metadata, dict):
        key = rng.choice([*metadata, "", "note", "key", "signature", "x" * 1000])
        if choice == 0:
            metadata.pop(key, None)
        else:
            metadata[key] = rng.choice(_TEXTS if choice < 3 else _NUMBERS)
    elif choice <= 6 and tensors:
        spec = rng.choice(tensors)
        if choice == 4:
            spec[rng.choice(("shape", "data_offsets"))] = [rng.choice(_NUMBERS) for _ in range(rng.randrange(5))]
        elif choice == 5:
            spec["dtype"] = rng.choice(_DTYPES)
        elif isinstance(spec.get("shape"), list) and spec["shape"]:
            spec["shape"][rng.randrange(len(spec["shape"]))] = rng.choice(_NUMBERS)
    elif choice == 7:
        header.pop(rng.choice(list(header)), None) if header else None
    else:
        header[rng.choice(("atoms", "__metadata__", "more", ""))] = rng.choice(
            (
                {},
                [],
                "x",
                {"dtype": "F64", "shape": [0, 5], "data_offsets": [0, 0]},
                {"dtype": "F64", "shape": [2**31, 2**31], "data_offsets": [0, 2**62]},
                {f"k{i}": "v" for i in range(rng.choice((100, 1000)))},
            )
        )


def _with_header(text: bytes, body: bytes, rng: random.Random | None = None) -> bytes:
    if rng is None or rng.random() < 0.95:
        text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + body


def _place(size: int, rng: random.Random) -> int:
    """A place in the data, half of the time near its start, where the header is."""
    return rng.randrange(min(size, 1000) if rng.random() < 0.5 else size)


BINARY_MUTATIONS = (
    *(truncate, flip_bits, set_bytes, insert_bytes, delete_bytes, repeat_part, append, header_length),
    *(edit_header, edit_header, edit_header, edit_header_text, edit_header_text, edit_numbers),
)
TEXT_MUTATIONS = (truncate, flip_bits, set_bytes, insert_bytes, delete_bytes, repeat_part, append)


# ---- files that never were of ours --------------------------------------------------------------------------------


def strangers(*, largest: bool) -> Iterator[tuple[str, bytes]]:
    """Files of other kinds, and the worst that the limits let through."""
    yield "empty", b""
    yield "zeros", bytes(1000)
    yield "pickle", pickle.dumps({"atoms": list(range(100))})
    yield "npy", _npy()
    yield "zip bomb", _zip_bomb()
    yield "zlib bomb", _zlib_bomb()
    yield "deep JSON", b"[" * 10**6
    yield "deep objects", b'{"a":' * 10**5
    yield "a megabyte of JSON lists", b"[" + b"[]," * 2**19 + b"1]"
    if largest:
        yield from largest_headers()


def largest_headers() -> Iterator[tuple[str, bytes]]:
    """Headers as long as they may be, of what a general JSON reader would turn into a hundred megabytes."""
    limit = exchange.contributions.CONTRIBUTION.max_header
    for name, unit in (
        *(("lists", b"[],"), ("objects", b"{},"), ("nested lists", b"["), ("texts", b'"ab",'), ("numbers", b"1,")),
        *(("escapes", b"\\n"), ("quotes", b'\\"'), ("pairs", b'"ab":"c",'), ("tensors", b'"ab":{},'), ("spaces", b" ")),
    ):
        for start in (b'{"__metadata__":{"features":"', b'{"__metadata__":{"features":', b'{"a":[', b"{"):
            text = (start + unit * (limit // len(unit)))[: limit - 8]
            yield f"{limit} bytes of {name}", len(text).to_bytes(8, "little") + text
    yield "features of lists", _contribution_with_features("[" + "[]," * (limit // 4))
    yield "features of texts", _contribution_with_features("[" + '"ab",' * (limit // 8) + '"c"]')
    yield "many distinct features", _contribution_with_features(json.dumps([f"v{i}" for i in range(limit // 13)]))


def _npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.eye(5))
    return stream.getvalue()


def _zip_bomb() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("atoms.npy", "w") as member:
        for _ in range(100):
            member.write(bytes(10**6))
    return stream.getvalue()


def _zlib_bomb() -> bytes:
    bomb = zlib.compressobj()
    return b"".join(bomb.compress(bytes(10**6)) for _ in range(100)) + bomb.flush()


def _contribution_with_features(features: str) -> bytes:
    metadata = {"format": "fedica.contribution", "version": "1", "client": "c", "features": features}
    header = {"__metadata__": metadata, "atoms": {"dtype": "F64", "shape": [1, 1], "data_offsets": [0, 8]}}
    text = json.dumps(header).encode()
    return _with_header(text, np.ones(1).tobytes())


def places(folder: Path, reader: Reader) -> Iterator[tuple[str, object]]:
    """Paths that are no regular files, or very large ones (sparse, so they cost no disk)."""
    yield "folder", folder
    yield "missing", folder / "missing"
    yield "name with NUL", "a\0b"
    yield "name too long", folder / ("x" * 5000)
    for name, n_features in (
        ("largest of zeros", CONTRIBUTION.max_numbers),
        ("one too many", CONTRIBUTION.max_numbers + 1),
    ):
        path = folder / name.replace(" ", "-")
        _sparse(path, n_features)
        yield name, path
    if reader.read is exchange.read_contribution:
        yield "largest that is valid", _largest(folder / "largest")
    huge = folder / "huge"
    huge.touch()
    os.truncate(huge, 2**40)
    yield "sparse terabyte", huge
    if os.name == "posix":
        loop = folder / "loop"
        loop.symlink_to(loop)
        yield "symlink loop", loop
        os.mkfifo(folder / "fifo")
        yield "FIFO", folder / "fifo"
        yield "device", Path("/dev/zero")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(folder / "socket"))
        yield "socket", folder / "socket"


def _largest(path: Path) -> Path:
    """Write a contribution of eleven million numbers whose norms are one to 1e-7, so that they are all scaled anew."""
    n_features, n_atoms = 220_000, 50
    _sparse(path, n_features, n_atoms)
    row = np.full(n_atoms, (1 + 1e-7) / np.sqrt(n_features))
    with path.open("r+b") as stream:
        stream.seek(-8 * n_features * n_atoms, os.SEEK_END)
        for _ in range(n_features // 1000):
            stream.write(np.tile(row, 1000).tobytes())
    return path


def _sparse(path: Path, n_features: int, n_atoms: int = 1) -> None:
    header = {
        "__metadata__": {"client": "large", "format": "fedica.contribution", "version": "1"},
        "atoms": {"dtype": "F64", "shape": [n_features, n_atoms], "data_offsets": [0, 8 * n_features * n_atoms]},
    }
    text = json.dumps(header).encode()
    path.write_bytes(_with_header(text, b""))
    os.truncate(path, path.stat().st_size + 8 * n_features * n_atoms)


# ---- the readers and what they promise ----------------------------------------------------------------------------


def check_contribution(path: Path, record: fedica.Contribution) -> None:
    """A contribution that is accepted is valid, and an independent reader sees the same atoms."""
    assert isinstance(record, fedica.Contribution)
    d, r = record.atoms.shape
    if record.atoms.size > 10**6:
        return  # the checks would take more memory than the reading that is measured
    assert 1 <= r <= d
    assert record.atoms.dtype == np.float64
    assert np.all(np.abs(np.linalg.norm(record.atoms, axis=0) - 1) < 1e-9)
    assert record.client == fedica.records.check_name(record.client, "client")
    assert record.n_samples is None or 1 <= record.n_samples < 10**18
    assert record.features is None or len(set(record.features)) == d
    tensors = dict(deserialize(path.read_bytes()))
    assert set(tensors) == ({"atoms"} if record.gram is None else {"atoms", "gram"})
    assert list(tensors["atoms"]["shape"]) == [d, r]
    numbers = np.frombuffer(tensors["atoms"]["data"], {"F64": "<f8", "F32": "<f4"}[tensors["atoms"]["dtype"]])
    np.testing.assert_allclose(numbers.reshape(d, r), record.atoms, atol=2e-6)
    exchange.contribution_to_bytes(record)


def check_aggregate(path: Path, record: exchange.PublicAggregate) -> None:
    assert np.isfinite(record.mixing).all()
    exchange.aggregate_to_bytes(record)


def check_details(path: Path, record: fedica.Aggregate) -> None:
    assert record.labels.max() < record.n_components
    assert record.client_of_atom.max() < len(record.clients)
    exchange.details_to_bytes(record)


def check_details_and_report(path: Path, record: fedica.Aggregate) -> None:
    """What is read can be written, and the report of it too."""
    check_details(path, record)
    if record.atoms.size < 10**4:
        assert "</html>" in render_report(record)


def check_scores(path: Path, record: fedica.Scores) -> None:
    """A second message that is accepted is finite, and can be written."""
    m = len(record.components)
    assert record.covariance.shape == record.products.shape == (m, m)
    assert all(np.isfinite(x).all() for x in (record.scale, record.covariance, record.products, record.slopes))
    exchange.scores_to_bytes(record)


def check_inspected(path: Path, record: Inspected) -> None:
    """Every field is one printable line."""
    assert all(field.value.isprintable() and len(field.value) < 200 for field in record.fields)


def check_any(path: Path, record: object) -> None:
    assert record is not None


@dataclass(frozen=True)
class Reader:
    """A function that reads a file, what must hold of its result, and the golden files to start from."""

    read: Callable[[Path], object]
    check: Callable[[Path, object], None]
    seeds: tuple[str, ...]
    mutations: tuple[Callable[[bytes, random.Random], bytes], ...]


READERS = {
    "contribution": Reader(
        exchange.read_contribution,
        check_contribution,
        tuple(
            f"{folder}contribution{name}.safetensors"
            for folder, names in (("", ("", "-signed", "-bare")), ("v2/", ("", "-signed", "-full", "-float32")))
            for name in names
        ),
        BINARY_MUTATIONS,
    ),
    "aggregate": Reader(exchange.read_aggregate, check_aggregate, ("aggregate.safetensors",), BINARY_MUTATIONS),
    "details": Reader(
        exchange.read_details,
        check_details_and_report,
        ("details.safetensors", "details-kinds.safetensors"),
        BINARY_MUTATIONS,
    ),
    "scores": Reader(exchange.read_scores, check_scores, ("v2/scores.safetensors",), BINARY_MUTATIONS),
    "study": Reader(exchange.read_study, check_any, ("study.json",), TEXT_MUTATIONS),
    "key": Reader(exchange.read_public_key, check_any, ("client-07.pub",), TEXT_MUTATIONS),
    "inspect": Reader(
        inspect_file,
        check_inspected,
        (
            *("contribution.safetensors", "v2/contribution-full.safetensors", "aggregate.safetensors", "study.json"),
            *("v2/scores.safetensors", "details-kinds.safetensors", "client-07.pub", "v1/result/summary.json"),
        ),
        BINARY_MUTATIONS,
    ),
}


def run(reader: Reader, count: int, seed: int, folder: Path) -> tuple[Counter[str], float, str]:
    """Read ``count`` mutated files and all strangers; return how each ended, and the slowest with its name."""
    rng = random.Random(seed)  # noqa: S311 - mutations, not secrets
    seeds = [(GOLDEN / name).read_bytes() for name in reader.seeds]
    outcomes: Counter[str] = Counter()
    slowest, slowest_name = 0.0, ""

    def feed(path: object, name: str) -> None:
        nonlocal slowest, slowest_name
        seconds = _feed(reader, path, outcomes)
        if seconds > slowest:
            slowest, slowest_name = seconds, name

    faulthandler.dump_traceback_later(120, exit=True)  # a reader that blocks must not block this for ever
    for name, path in places(folder, reader):
        feed(path, name)
    target = folder / "case.safetensors"
    for name, data in strangers(largest=reader.read is exchange.read_contribution):
        target.write_bytes(data)
        feed(target, name)
        target.unlink()
    for number in range(count):
        if number % 1000 == 0:
            faulthandler.dump_traceback_later(120, exit=True)
        data = rng.choice(seeds)
        names = []
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            mutate = rng.choice(reader.mutations)
            try:
                data = mutate(data, rng) or b"\0"
            except (ValueError, KeyError, IndexError, AttributeError, RecursionError):
                continue  # this mutation needs a header that is still whole
            names.append(mutate.__name__)
        target.write_bytes(data)
        try:
            feed(target, "+".join(names))
        except Exception:
            print(
                f"case {number} of seed {seed} ({'+'.join(names)}) broke a promise; kept as {target}", file=sys.stderr
            )
            raise
        target.unlink()  # a new file is quicker than an old one cut to nothing
    faulthandler.cancel_dump_traceback_later()
    return outcomes, slowest, slowest_name


def _feed(reader: Reader, path: object, outcomes: Counter[str]) -> float:
    start = time.process_time()  # another program on the same machine does not count
    try:
        record = reader.read(path)  # type: ignore[arg-type]
    except FedicaError as refused:
        record, sentence, outcome = None, str(refused), type(refused).__name__
    else:
        sentence, outcome = "", "accepted"
    seconds = time.process_time() - start
    outcomes[outcome] += 1
    if record is not None:
        reader.check(path, record)  # type: ignore[arg-type]
    elif not 10 < len(sentence) < 2000 + 2 * len(str(path)) or any(ord(letter) < 32 for letter in sentence):
        raise AssertionError(f"an error must be one short sentence, however large the file; got {sentence[:3000]!r}")
    return seconds


def memory_megabytes() -> tuple[float, float]:
    """Return the memory that this process has now, and the most it ever had; zeros where the system does not tell."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return 0.0, 0.0
    fields = dict(line.split(":", 1) for line in status.splitlines())
    now, peak = (int(fields[name].split()[0]) * 1024 / 1e6 for name in ("VmRSS", "VmHWM"))
    return now, peak


def report(name: str, count: int, seed: int) -> bool:
    """Feed one reader and print what happened; tell whether it kept its promises on time and memory."""
    reader = READERS[name]
    reader.read(GOLDEN / reader.seeds[0])
    folder = Path(tempfile.mkdtemp(prefix="fedica-fuzz-"))  # kept, with the case in it, if a promise is broken
    (baseline, _), start = memory_megabytes(), time.perf_counter()
    outcomes, slowest, slowest_name = run(reader, count, seed, folder)
    over = memory_megabytes()[1] - baseline
    print(
        f"{name}: {outcomes.total()} files in {time.perf_counter() - start:.0f} s: {dict(outcomes)}; "
        f"peak memory {over:.0f} MB over the baseline of {baseline:.0f} MB; slowest {slowest:.3f} s ({slowest_name})"
    )
    shutil.rmtree(folder)
    return over <= MAX_MEGABYTES and slowest <= MAX_SECONDS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200_000, help="how many mutated files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", choices=(*READERS, "all"), default="contribution")
    arguments = parser.parse_args()
    names = READERS if arguments.reader == "all" else (arguments.reader,)
    kept = [report(name, arguments.count, arguments.seed) for name in names]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
