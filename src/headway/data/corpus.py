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
            if not head and not path.is_file():
                return [], [f"{path}: gave nothing; a pipe can be read only once: write it to a file first"]
            if not head:
                return [], [f"{path}: is empty. Was it written to the end, and is it the right file?"]
            if head.startswith(GZIP) and path.suffix != ".gz" and path.is_file():
                return [], [f"{path}: is compressed. Name it {path.name}.gz, or unpack it"]
            if told := kind(head):
                return [], [f"{path}: {told}"]
            # Every other byte of UTF-16 is NUL in European text; a text may hold a NUL here and there.
            if head.count(0) > len(head) // 3:
                return [], [f"{path}: {UTF16}"]
            lines, faults = [], []
            for line in decoded(stream, str(path), head):
                (faults if isinstance(line, ValueError) else lines).append(line)
            if faults and is_binary(head):
                return [], [f"{path}: is no text. Name a text file"]
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
    if 2 * len(sample.decode(errors="ignore").encode()) < len(sample):
        return "Most of it is not: it is no text, or in another encoding: iconv -f ENCODING -t UTF-8"
    return "Convert the file from the encoding it has: iconv -f LATIN1 -t UTF-8"


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


def hold_out(pairs: Sequence[tuple[str, str]], share: float = 0.05, most: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Indices for training and for validation: at most `share` of the pairs and `most`, chosen by hash of the source.

    One source at least is held out, so both may be exceeded where the smallest group of one source is larger; nowhere
    else. Pairs with the same source stay together, and neither the order of the lines nor the target counts. Pairs with
    an empty side stay in training, where they are counted and left out. Raises ValueError if there are under two
    sources.
    """
    groups: dict[str, list[int]] = {}
    for index, (source, target) in enumerate(pairs):
        if source.strip() and target.strip():
            groups.setdefault(source, []).append(index)
    if len(groups) < 2:
        raise ValueError(
            "holding some out takes two or more different source lines with a translation, and there are "
            f"{len(groups)}: give more lines, or name validation files (data.valid_source, data.valid_target)"
        )
    ranked = sorted(groups, key=lambda source: blake2b(source.encode(), digest_size=16).digest())
    budget = max(1, min(most, int(share * len(pairs))))
    held: list[int] = []
    for source in ranked:
        if len(held) + len(groups[source]) <= budget:
            held += groups[source]
    held = held or min((groups[source] for source in ranked), key=len)
    valid = np.array(sorted(held), dtype=np.int64)
    return np.setdiff1d(np.arange(len(pairs)), valid), valid
