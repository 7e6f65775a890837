"""Encoded pairs on the disk, mapped into memory: built once, in shards, and read by any number of runs.

    STORE/files.json         content hashes of the files by path, size and times, so that nothing is hashed twice
    STORE/pairs-KEY/         what reading, cleaning and holding out decided (`headway.data.prepare`), and a tokenizer
    STORE/tokens-KEY/        manifest.json and shards: token ids of both sides, where rows end, and where pairs stand

A key is a hash of everything that the content depends on, files' contents and what reads them too, so a store is never
wrong, only absent.
A shard is written, flushed and renamed before the manifest names it with its checksum: a build that is killed goes on
after the last whole shard. The twin is the in-memory shard of `pack`: tests/test_store.py holds both together.
"""

import fcntl
import hashlib
import json
import logging
import os
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import asdict
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headway.checkpoint import write_files, write_json
from headway.data.tally import Tally

log = logging.getLogger("headway")

FORMAT = 1
SHARD_TOKENS = 1 << 23
"""Tokens of both sides after which a shard is closed: what a build holds in memory, and what a killed one loses."""


class Row(NamedTuple):
    """An encoded pair: its part of the corpora, its number there, and the token ids of both sides."""

    part: int
    number: int
    source: Sequence[int]
    target: Sequence[int]


class Shard(NamedTuple):
    """Rows as arrays. parts, numbers, source_ends, target_ends: (n,) uint32; sources, targets: ids of all rows."""

    parts: np.ndarray
    numbers: np.ndarray
    source_ends: np.ndarray
    target_ends: np.ndarray
    sources: np.ndarray
    targets: np.ndarray


class Packer:
    """Collects rows at four bytes a token, where Python's lists would take forty."""

    def __init__(self) -> None:
        self.arrays = [array("I") for _ in Shard._fields]

    def add(self, rows: Iterable[Row]) -> None:
        parts, numbers, source_ends, target_ends, sources, targets = self.arrays
        for row in rows:
            parts.append(row.part)
            numbers.append(row.number)
            sources.extend(row.source)
            targets.extend(row.target)
            source_ends.append(len(sources))
            target_ends.append(len(targets))

    @property
    def tokens(self) -> int:
        return sum(map(len, self.arrays[-2:]))

    def shard(self, dtype: str = "uint32") -> Shard:
        """What was collected; dtype: of the ids."""
        kinds = ["uint32"] * 4 + [dtype] * 2
        return Shard(*(np.array(part, dtype=kind) for part, kind in zip(self.arrays, kinds, strict=True)))


def pack(rows: Iterable[Row]) -> Shard:
    """Rows as one shard in memory."""
    packer = Packer()
    packer.add(rows)
    return packer.shard()


class Build(NamedTuple):
    """What to store: key and dtype of the ids; `rows(read, tally)` gives the rows of the pairs from number `read` on in
    blocks, each with the number of pairs read by then, and counts in `tally` what it leaves out."""

    key: str
    dtype: str
    rows: Callable[[int, Tally], Iterator[tuple[int, list[Row]]]]


def stored(folder: Path, build: Build) -> tuple[list[Shard], Tally]:
    """The shards in a folder, built where they are not there yet. Those that are damaged, or another's, are told by
    name and built again."""
    manifest = read_manifest(folder, build)
    whole = verified(folder, manifest["shards"])
    if whole < len(manifest["shards"]):
        del manifest["shards"][whole:]
        manifest["complete"] = False
    if not manifest["complete"]:
        fill(folder, manifest, build)
    shards = [open_shard(folder / entry["file"], entry, build.dtype) for entry in manifest["shards"]]
    return shards, Tally(**manifest["shards"][-1]["tally"])


def read_manifest(folder: Path, build: Build) -> dict[str, Any]:
    """What a folder holds of this build; an empty manifest where it holds nothing of it."""
    path, empty = folder / MANIFEST, {"format": FORMAT, "key": build.key, "complete": False, "shards": [], "check": ""}
    try:
        found = json.loads(path.read_bytes())
        if {**found, "complete": False, "shards": [], "check": ""} != empty:
            raise ValueError("it is of another store")
        if found["check"] != key_of(found["shards"]):
            raise ValueError("its checksum is another")
        return found
    except FileNotFoundError:
        return empty
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        log.warning("%s: is damaged (%s); building it again", path, error)
        return empty


MANIFEST = "manifest.json"


def verified(folder: Path, entries: Sequence[dict[str, Any]]) -> int:
    """How many shards from the first on are what was written."""
    for number, entry in enumerate(entries):
        path = folder / entry["file"]
        if not path.is_file() or digest(path) != entry["digest"]:
            log.warning("%s: is damaged or not of this store; building from here on again", path)
            return number
    return len(entries)


DIGEST = partial(hashlib.blake2b, digest_size=16)


def digest(path: Path) -> str:
    """A hash of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, DIGEST).hexdigest()


def fill(folder: Path, manifest: dict[str, Any], build: Build) -> None:
    """Write the shards that are missing, each followed by the manifest."""
    last = manifest["shards"][-1] if manifest["shards"] else {"read": 0, "tally": asdict(Tally())}
    read, tally, packer = last["read"], Tally(**deepcopy(last["tally"])), Packer()
    for leftover in folder.glob(".*.tmp"):  # of a build that was killed
        leftover.unlink()
    if read:
        log.info("store: going on after %s pairs", f"{read:,}")

    def close(complete: bool) -> None:
        nonlocal packer
        name, shard = f"{len(manifest['shards']):05d}.shard", packer.shard(build.dtype)
        data = b"".join(part.tobytes() for part in shard)
        write_files(folder, {name: lambda path: path.write_bytes(data)})
        sizes = {"pairs": len(shard.parts), "sources": len(shard.sources), "targets": len(shard.targets)}
        entry = {"file": name, **sizes, "read": read, "digest": DIGEST(data).hexdigest(), "tally": asdict(tally)}
        manifest["shards"].append(entry)
        manifest.update(complete=complete, check=key_of(manifest["shards"]))
        write_files(folder, {MANIFEST: lambda path: write_json(path, manifest)})
        packer = Packer()

    for upto, rows in build.rows(read, tally):
        read = upto
        packer.add(rows)
        if packer.tokens >= SHARD_TOKENS:
            close(complete=False)
    close(complete=True)


def open_shard(path: Path, entry: dict[str, Any], dtype: str) -> Shard:
    """A shard's file as arrays that are mapped, not read."""
    size, wide = np.dtype(dtype).itemsize, 4 * entry["pairs"]
    lengths = [wide] * 4 + [size * entry["sources"], size * entry["targets"]]
    kinds, ends = ["uint32"] * 4 + [dtype] * 2, np.cumsum(lengths).tolist()
    raw = np.memmap(path, dtype=np.uint8, mode="r") if ends[-1] else np.zeros(0, np.uint8)
    spans = zip(kinds, ends, lengths, strict=True)
    return Shard(*(np.asarray(raw[end - length : end]).view(kind) for kind, end, length in spans))


# ---- keys ----


def key_of(facts: Any) -> str:
    """A short hash of JSON data."""
    text = json.dumps(facts, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=12).hexdigest()


@cache
def makers() -> list[str]:
    """What decides, besides files and settings, what they give: a hash of our own code that reads and encodes them, and
    the versions of the libraries that it does it with; "" for one that is not there."""
    code = hashlib.blake2b(digest_size=12)
    for room in ("data", "formats", "text"):
        for path in sorted((Path(__file__).parents[1] / room).glob("*.py")):
            code.update(f"{room}/{path.name}\0".encode() + path.read_bytes() + b"\0")
    return [code.hexdigest(), *map(version_of, LIBRARIES)]


LIBRARIES = "tokenizers", "sentencepiece", "polib", "py3langid", "pyarrow", "regex"


def version_of(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""


class Digests:
    """The content hash of each file, in `found`: the one in the store where size and times are still those that it was
    computed at. `save` writes them there."""

    def __init__(self, paths: Sequence[Path], folder: Path) -> None:
        self.folder, self.known, self.found = folder, {}, []
        with suppress(OSError, ValueError, TypeError):  # it is only a shortcut
            self.known = dict(json.loads((folder / FILES).read_bytes()))
        for path in paths:
            facts, name = path.stat(), str(path.absolute())
            stamp = [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns]
            entry = self.known.get(name, [])
            if entry[:-1] != stamp:
                entry = [*stamp, digest(path)]
                # A file that is still being written could change again within one tick of its clock.
                self.known[name] = entry if time.time_ns() - facts.st_ctime_ns > SETTLED else []
            self.found.append(entry[-1])

    def save(self) -> None:
        write_files(self.folder, {FILES: lambda path: write_json(path, self.known)})


FILES = "files.json"
SETTLED = 2 * 10**9
"""Nanoseconds after which a file's times are trusted to tell a change."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time builds in a store; the others wait, and find it built."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("%s: another run is building this store; waiting for it", folder)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
