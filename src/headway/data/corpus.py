r"""Lines of text, plain or .gz, as they come. A line ends at \n and nowhere else: line n here is line n for everybody.

Dropped: a byte order mark at the start, and one \r at the end of a line (CRLF). All else is kept: NUL, a lone \r,
U+0085, U+2028, empty lines, duplicates. What cannot be read is a ValueError with file, place and remedy, never skipped.
"""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import numpy as np

from headway.formats.segment import CONVERT

BOM = b"\xef\xbb\xbf"
GZIP = b"\x1f\x8b"
UTF16 = "is UTF-16 or no text. Convert it to UTF-8: iconv -f UTF-16 -t UTF-8"
IMAGE = "is an image, not UTF-8 text. Name a text file"
BZIP2 = "is compressed by bzip2. Unpack it first: bunzip2"
KINDS = {
    b"\xff\xfe": UTF16,
    b"\xfe\xff": UTF16,
    GZIP: "is compressed by gzip. Unpack it first: zcat FILE.gz | headway ...",
    b"\xfd7zXZ\0": "is compressed by xz. Unpack it first: unxz",
    b"\x28\xb5\x2f\xfd": "is compressed by zstd. Unpack it first: unzstd",
    **{b"BZh%d1AY&SY" % level: BZIP2 for level in range(1, 10)},
    b"PK\x03\x04": "is a zip archive or an office document. Unpack it with unzip, or save its text as UTF-8",
    b"%PDF-": "is a PDF document. Save its text as UTF-8: pdftotext -enc UTF-8",
    b"\x89PNG": IMAGE,
    b"\xff\xd8\xff": IMAGE,
}
"""What a file is that begins with these bytes, and the remedy."""
CONTROLS = bytes(byte for byte in range(32) if byte not in b"\t\n\r")
HEAD = 8192
SHOWN = 3
"""Faults of one file that are shown in full; the rest are counted."""


class Faults:
    """What is wrong with a file: the first faults in full, the rest counted as "3 more " and `what` they are."""

    def __init__(self, path: Path, what: str) -> None:
        self.path, self.what, self.told, self.more = path, what, [], 0

    def add(self, fault: str) -> None:
        if len(self.told) < SHOWN:
            self.told.append(fault)
        else:
            self.more += 1

    def tell(self) -> None:
        """Raises ValueError if there is any."""
        if self.told:
            raise ValueError("\n".join(self.told + [f"{self.path}: {self.more:,} more {self.what}"] * bool(self.more)))


def read_lines(path: Path | str) -> list[str]:
    """All lines of a text file. Raises ValueError: missing, unreadable, empty, binary or not UTF-8."""
    return list(stream_lines(path))


def read_pairs(source: Path | str, target: Path | str) -> list[tuple[str, str]]:
    """Line n of `source` with line n of `target`. Raises ValueError: all faults of both files, or both counts."""
    return list(stream_pairs(source, target))


def stream_lines(path: Path | str) -> Iterator[str]:
    """The lines of a text file as they come. Raises ValueError: at once for what is missing, unreadable, empty or
    binary; for lines that are not UTF-8, with all of them at the end, and none is given after the first of them."""
    path = Path(path)
    faults = Faults(path, "lines are not UTF-8")
    with opened(path) as stream:
        head = stream.peek(HEAD)[:HEAD]
        if told := no_text(path, head):
            raise ValueError(f"{path}: {told}")
        for line in decoded(stream, str(path), head):
            if isinstance(line, ValueError):
                faults.add(str(line))
            elif not faults.told:
                yield line
    if faults.told and is_binary(head):
        raise ValueError(f"{path}: is no text. Name a text file")
    faults.tell()


def stream_pairs(source: Path | str, target: Path | str) -> Iterator[tuple[str, str]]:
    """The pairs of two files as they come. Raises ValueError at the end: all faults of both files, or both counts."""
    sides = [stream_lines(source), stream_lines(target)]
    counts, faults = [0, 0], []
    while True:
        lines = []
        for number, side in enumerate(sides):
            try:
                lines.append(next(side))
                counts[number] += 1
            except StopIteration:
                pass
            except ValueError as error:
                faults.append(str(error))
        if len(lines) < 2:
            break
        yield lines[0], lines[1]
    for number, side in enumerate(sides):
        try:
            counts[number] += sum(1 for _ in side)
        except ValueError as error:
            faults.append(str(error))
    if faults:
        raise ValueError("\n".join(faults))
    if counts[0] != counts[1]:
        raise ValueError(
            f"{source} has {counts[0]:,} lines and {target} has {counts[1]:,}: line n must be the translation of "
            "line n. Look for the first pair that does not match, and for a line break too many or too few there"
        )


def iter_lines(stream: BinaryIO, name: str = "standard input") -> Iterator[str]:
    """The lines of an open stream as they come; there may be none. Raises ValueError at one that is not UTF-8."""
    for line in decoded(stream, name):
        if isinstance(line, ValueError):
            raise line
        yield line


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
    """The bytes of a file, unpacked where it is .gz. What goes wrong in opening and reading becomes a ValueError."""
    try:
        with path.open("rb") as plain:
            yield io.BufferedReader(gzip.GzipFile(fileobj=plain)) if path.suffix == ".gz" else plain
    except FileNotFoundError:
        wrong = "there is no such file. Check the name, and the folder that it is relative to"
    except IsADirectoryError:
        wrong = "is a folder. Name a text file in it"
    except PermissionError:
        wrong = "may not be read by this user. Change its permissions (chmod +r), or take a copy"
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        wrong = f"is damaged or no gzip file ({error}). Copy it again, or name it without .gz"
    except OSError as error:
        wrong = f"cannot be read ({error.strerror or error})"
    else:
        return
    raise ValueError(f"{path}: {wrong}")


def no_text(path: Path, head: bytes) -> str | None:
    """Why a file that begins so cannot be a text, with the remedy."""
    if not head and not path.is_file():
        return "gave nothing; a pipe can be read only once: write it to a file first"
    if not head:
        return "is empty. Was it written to the end, and is it the right file?"
    if head.startswith(GZIP) and path.suffix != ".gz" and path.is_file():
        return f"is compressed. Name it {path.name}.gz, or unpack it"
    # Every other byte of UTF-16 is NUL in European text; a text may hold a NUL here and there.
    return kind(head) or (UTF16 if head.count(0) > len(head) // 3 else None)


def kind(head: bytes) -> str | None:
    """What bytes are that begin like something known and are no text, with the remedy."""
    text = len(head) - len(head.decode(errors="ignore").encode()) < 4 and not is_binary(head)  # a character may be cut
    return None if text else next((told for magic, told in KINDS.items() if head.startswith(magic)), None)


def is_binary(sample: bytes) -> bool:
    """More control characters than a text in any encoding of bytes has. For what is not UTF-8: that may hold any."""
    return 20 * (len(sample) - len(sample.translate(None, CONTROLS))) > len(sample)


def remedy(sample: bytes) -> str:
    """What to do about a file that is not UTF-8, to judge by this part of it."""
    if is_binary(sample):
        return "This is no text: name a text file"
    return CONVERT


def decoded(stream: BinaryIO, name: str, head: bytes = b"") -> Iterator[str | ValueError]:
    """Each line of a stream, or the fault in its place; head: its first bytes where they are known."""
    offset = 0
    for number, raw in enumerate(stream, 1):
        if number == 1 and (told := kind(raw)):
            yield ValueError(f"{name}: {told}")
            return
        skipped = len(BOM) if number == 1 and raw.startswith(BOM) else 0
        line = raw[skipped:].removesuffix(b"\n").removesuffix(b"\r")
        if line or raw != BOM:  # a mark with nothing behind it is no line
            try:
                yield line.decode()
            except UnicodeDecodeError as error:
                at = skipped + error.start
                yield ValueError(
                    f"{name}: line {number}, byte {at} of the line, byte {offset + at} of the file (from 0): "
                    f"0x{raw[at]:02X} is not UTF-8. {remedy(head or raw)}"
                )
        offset += len(raw)


def source_hash(source: str) -> bytes:
    """What pairs are held out by: 16 bytes."""
    return blake2b(source.encode(), digest_size=16).digest()


def hold_out(hashes: np.ndarray, eligible: np.ndarray, share: float = 0.05, most: int = 2000) -> np.ndarray:
    """Indices of the pairs for validation: at most `share` of the pairs and `most`, those with the lowest hashes.

    hashes: (N, 16) uint8, of the sources, may lie on the disk; eligible: (N,) bool, pairs with two sides that were not
    left out. One source at least is held out, so both bounds may be exceeded where the smallest group of one source is
    larger; nowhere else. Pairs with the same source stay together, and neither their order nor the target counts.
    Raises ValueError if there are under two sources.
    """
    budget, held, sources = max(1, min(most, int(share * len(hashes)))), [], 0
    smallest: np.ndarray | None = None
    for first in range(256):  # a part at a time, in the order of the hashes, so that memory stays flat
        part = np.flatnonzero((hashes[:, 0] == first) & eligible)
        if not len(part):
            continue
        order = part[np.lexsort(hashes[part].T[::-1])]
        ranked = hashes[order]
        for group in np.split(order, np.flatnonzero((ranked[1:] != ranked[:-1]).any(axis=1)) + 1):
            sources += 1
            if smallest is None or len(group) < len(smallest):
                smallest = group
            if len(group) <= budget:
                held.append(group)
                budget -= len(group)
        if not budget and sources > 1:
            break
    if smallest is None or sources < 2:
        raise ValueError(
            "holding some out takes two or more different source lines with a translation, and there are "
            f"{sources}: give more lines, or name validation files (data.valid_source, data.valid_target)"
        )
    return np.sort(np.concatenate(held) if held else smallest)
