r"""Reading parallel text, plain or .gz. A line ends at \n and nowhere else: line n here is line n for everybody.

Dropped: a byte order mark at the start, and one \r at the end of a line (CRLF). All else is kept: NUL, a lone \r,
U+0085, U+2028, empty lines, duplicates. What cannot be read is a ValueError with file, place and remedy, never skipped.
"""

import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import numpy as np

BOM = b"\xef\xbb\xbf"
UTF16 = (b"\xff\xfe", b"\xfe\xff")
HEAD = 8192
SHOWN = 3
"""Faults of one file that are shown in full; the rest are counted."""


def read_lines(path: Path | str) -> list[str]:
    """All lines of a text file. Raises ValueError: missing, unreadable, empty, binary or not UTF-8."""
    lines, faults = attempt(Path(path))
    if faults:
        raise ValueError("\n".join(faults))
    return lines


def read_pairs(source: Path | str, target: Path | str) -> list[tuple[str, str]]:
    """Line n of `source` with line n of `target`. Raises ValueError: all faults of both files, or both counts."""
    sources, faults = attempt(Path(source))
    targets, more = attempt(Path(target))
    if faults + more:
        raise ValueError("\n".join(faults + more))
    if len(sources) != len(targets):
        raise ValueError(
            f"{source} has {len(sources):,} lines and {target} has {len(targets):,}: line n must be the translation of "
            "line n. Look for the first pair that does not match, and for a line break too many or too few there"
        )
    return list(zip(sources, targets, strict=True))


def iter_lines(stream: BinaryIO, name: str = "standard input") -> Iterator[str]:
    """The lines of an open stream as they come; there may be none. Raises ValueError at one that is not UTF-8."""
    for line in decoded(stream, name):
        if isinstance(line, ValueError):
            raise line
        yield line


def attempt(path: Path) -> tuple[list[str], list[str]]:
    """The lines of a file, or what is wrong with it."""
    try:
        with path.open("rb") as plain:
            stream = io.BufferedReader(gzip.GzipFile(fileobj=plain)) if path.suffix == ".gz" else plain
            head = stream.peek(HEAD)[:HEAD]
            if not head:
                return [], [f"{path}: is empty. Was it written to the end, and is it the right file?"]
            if head.startswith(b"\x1f\x8b"):
                return [], [f"{path}: is compressed. Name it {path.name}.gz, or unpack it"]
            # Every other byte of UTF-16 is NUL in European text; a text may hold a NUL here and there.
            if head.startswith(UTF16) or head.count(0) > len(head) // 3:
                return [], [f"{path}: is UTF-16 or no text. Convert it to UTF-8: iconv -f UTF-16 -t UTF-8"]
            lines, faults = [], []
            for line in decoded(stream, str(path)):
                (faults if isinstance(line, ValueError) else lines).append(line)
    except FileNotFoundError:
        return [], [f"{path}: there is no such file. Check the name, and the folder that it is relative to"]
    except IsADirectoryError:
        return [], [f"{path}: is a folder. Name a text file in it"]
    except PermissionError:
        return [], [f"{path}: may not be read by this user. Change its permissions (chmod +r), or take a copy"]
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        return [], [f"{path}: is damaged or no gzip file ({error}). Copy it again, or name it without .gz"]
    except OSError as error:
        return [], [f"{path}: cannot be read ({error.strerror or error})"]
    told = [str(fault) for fault in faults[:SHOWN]]
    if len(faults) > SHOWN:
        told.append(f"{path}: {len(faults) - SHOWN:,} more lines are not UTF-8")
    return lines, told


def decoded(stream: BinaryIO, name: str) -> Iterator[str | ValueError]:
    """Each line of a stream, or the fault in its place."""
    offset = 0
    for number, raw in enumerate(stream, 1):
        skipped = len(BOM) if number == 1 and raw.startswith(BOM) else 0
        line = raw[skipped:].removesuffix(b"\n").removesuffix(b"\r")
        if line or raw != BOM:  # a mark with nothing behind it is no line
            try:
                yield line.decode()
            except UnicodeDecodeError as error:
                at = skipped + error.start
                yield ValueError(
                    f"{name}: line {number}, byte {at} of the line, byte {offset + at} of the file (from 0): "
                    f"0x{raw[at]:02X} is not UTF-8. Convert the file from the encoding it has: iconv -f LATIN1 -t UTF-8"
                )
        offset += len(raw)


def hold_out(pairs: Sequence[tuple[str, str]], share: float = 0.05, most: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Indices for training and for validation: at most `share` of the pairs and `most`, chosen by hash of the source.

    Pairs with the same source stay together, and neither the order of the lines nor the target counts. Pairs with an
    empty side stay in training, where they are counted and left out. Raises ValueError if there are under two sources.
    """
    groups: dict[str, list[int]] = {}
    for index, (source, target) in enumerate(pairs):
        if source.strip() and target.strip():
            groups.setdefault(source, []).append(index)
    if len(groups) < 2:
        raise ValueError("there must be two or more different source lines (with a translation) to hold some out")
    ranked = sorted(groups, key=lambda source: blake2b(source.encode(), digest_size=16).digest())
    budget = max(1, min(most, int(share * len(pairs))))
    held: list[int] = []
    for source in ranked:
        if len(held) + len(groups[source]) <= budget:
            held += groups[source]
    held = held or min((groups[source] for source in ranked), key=len)
    valid = np.array(sorted(held), dtype=np.int64)
    return np.setdiff1d(np.arange(len(pairs)), valid), valid
