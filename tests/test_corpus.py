"""Readers: a line ends at a line feed and nowhere else, nothing is lost in silence, and every fault says its place."""

import bz2
import gzip
import hashlib
import io
import lzma
import os
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.data.corpus import hold_out, iter_lines, read_lines, read_pairs, source_hash, stream_lines


@pytest.fixture(params=["text.en", "text.en.gz"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / request.param


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


READ = {
    "the last line feed makes no line": (b"a\nb\n", ["a", "b"]),
    "a last line without one is a line": (b"a\nb", ["a", "b"]),
    "empty lines are lines": (b"\na\n\n\n", ["", "a", "", ""]),
    "one line feed is one empty line": (b"\n", [""]),
    "duplicates stay, in order": (b"b\na\nb\nb\n", ["b", "a", "b", "b"]),
    "CRLF reads as LF": (b"a\r\n\r\nb\r\n", ["a", "", "b"]),
    "one carriage return is dropped at an end": (b"a\r\r\nb\r", ["a\r", "b"]),
    "carriage returns within a line stay": (b"a\rb\n", ["a\rb"]),
    "the mark is dropped at the start": (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
    "a mark before a line feed is an empty line": (b"\xef\xbb\xbf\na\n", ["", "a"]),
    "a mark before CRLF": (b"\xef\xbb\xbf\r\na\r\n", ["", "a"]),
    "NUL stays": (b"a\x00b\nc\n", ["a\x00b", "c"]),
    "other separators stay": (
        "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei\n".encode(),
        ["a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei"],
    ),
    "spaces stay": (b"  a  \n\t\n", ["  a  ", "\t"]),
    "control tokens are text": (b"<s> a </s>\n<pad>\n", ["<s> a </s>", "<pad>"]),
    "a megabyte in one line": (b"x" * 1_000_000 + b"\ny", ["x" * 1_000_000, "y"]),
}


@pytest.mark.parametrize("name", READ)
def test_lines_are_read_as_they_are(name: str, path: Path) -> None:
    content, lines = READ[name]
    assert read_lines(write(path, content)) == lines
    assert list(iter_lines(io.BytesIO(content))) == lines


@given(lines=st.lists(st.text().map(lambda text: text.replace("\n", "").rstrip("\r"))))
def test_any_lines_come_back(lines: list[str]) -> None:
    stream = io.BytesIO(b"\xef\xbb\xbf" + "".join(f"{line}\n" for line in lines).encode())
    assert list(iter_lines(stream)) == lines


def test_a_stream_gives_each_line_before_the_next_is_there() -> None:
    reader, writer = os.pipe()
    with open(reader, "rb") as stream, open(writer, "wb", buffering=0) as out:
        lines = iter_lines(stream)
        for text in ("one", "", "two"):
            out.write(f"{text}\n".encode())
            assert next(lines) == text


def test_an_empty_stream_has_no_lines() -> None:
    assert list(iter_lines(io.BytesIO(b""))) == []
    assert list(iter_lines(io.BytesIO(b"\xef\xbb\xbf"))) == []


def test_a_stream_gives_the_lines_before_a_fault_and_then_says_where() -> None:
    lines = iter_lines(io.BytesIO(b"\xef\xbb\xbfone\ntwo\xfc\nthree\n"), "my pipe")
    assert next(lines) == "one"
    with pytest.raises(ValueError, match=r"my pipe: line 2, byte 3 of the line, byte 10 of the file .*0xFC"):
        next(lines)


def zipped(text: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", text)
    return out.getvalue()


FAULTS = {
    "not UTF-8": (
        b"fine\nM\xe4nner\nfine\n",
        r"line 2, byte 1 of the line, byte 6 of the file \(from 0\): 0xE4 .*iconv",
    ),
    "cut off in a character": (b"\xef\xbb\xbfa\xe3\x81", r"line 1, byte 4 of the line, byte 4 of the file"),
    "a surrogate in UTF-8": (b"\xed\xa0\x80\n", r"line 1, byte 0 .*0xED"),
    "empty": (b"", r"is empty"),
    "UTF-16": ("Männer\n".encode("utf-16"), r"UTF-16.*iconv"),
    "UTF-16 without a mark": ("Two men walk.\n".encode("utf-16-le"), r"UTF-16.*iconv"),
    "binary": (b"\x7fELF\x02\x01\x01" + bytes(99), r"no text"),
    "an image": (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x01\xff" * 9, r"is an image, not UTF-8 text"),
    "a photograph": (b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01" * 9, r"is an image, not UTF-8 text"),
    "xz": (lzma.compress(b"text\n"), r"compressed by xz.*unxz"),
    "zstd": (b"\x28\xb5\x2f\xfd\x04\x00\x29\x00\x00text\n\x8b\x5a\x1b\xc5", r"compressed by zstd.*unzstd"),
    "bzip2": (bz2.compress(b"text\n", 3), r"compressed by bzip2.*bunzip2"),
    "zip": (zipped("text\n" * 99), r"zip archive or an office document.*unzip"),
    "PDF": (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n", r"PDF document.*pdftotext"),
    "random bytes": (random.Random(3).randbytes(5_000), r"is no text. Name a text file$"),
    "Russian in KOI8-R": ("Собака бежит.\n".encode("koi8-r") * 9, r"line 1, byte 0 .*iconv -f ENCODING"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_no_text_is_refused_with_file_place_and_remedy(name: str, path: Path) -> None:
    content, told = FAULTS[name]
    with pytest.raises(ValueError, match=told) as error:
        read_lines(write(path, content))
    assert str(path) in str(error.value)
    assert ("LATIN1" in str(error.value)) == (
        name in {"not UTF-8", "cut off in a character", "Russian in KOI8-R", "a surrogate in UTF-8"}
    )


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (gzip.compress(b"text\n", mtime=0), r"is compressed by gzip\. Unpack it first: zcat FILE\.gz \| headway"),
        (lzma.compress(b"text\n"), "is compressed by xz"),
        ("text\n".encode("utf-16"), "is UTF-16"),
        (bytes(range(128, 256)) + bytes(range(32)), "This is no text"),
    ],
    ids=["gzip", "xz", "UTF-16", "binary"],
)
def test_a_stream_that_is_no_text_is_refused_with_what_it_is(content: bytes, told: str) -> None:
    with pytest.raises(ValueError, match=f"standard input: .*{told}") as error:
        list(iter_lines(io.BytesIO(content)))
    assert "LATIN1" not in str(error.value)


def test_text_that_names_a_kind_of_file_or_holds_many_controls_is_text(path: Path) -> None:
    lines = ["BZh stands for bzip2", "%PDF- begins a PDF", "PK", "\x01\x02\x03\x1b[0m"]
    assert read_lines(write(path, "\n".join(lines).encode())) == lines


def test_many_bad_lines_are_shown_in_part_and_counted(path: Path) -> None:
    write(path, b"ok\n" + b"\xff\n" * 1_234)
    with pytest.raises(ValueError, match=r"1,231 more lines are not UTF-8") as error:
        read_lines(path)
    assert str(error.value).count("\n") == 3


def test_lines_come_as_they_are_read_and_none_after_a_fault(path: Path) -> None:
    write(path, b"one\ntwo\n\xff\nfour\n")
    lines = stream_lines(path)
    assert [next(lines), next(lines)] == ["one", "two"]
    with pytest.raises(ValueError, match="line 3, byte 0"):
        next(lines)


def test_a_missing_file_is_refused_by_name(path: Path) -> None:
    with pytest.raises(ValueError, match=r"text\.en.*there is no such file"):
        read_lines(path)


def test_a_pipe_is_read_once_and_then_refused_with_the_remedy() -> None:
    reader, writer = os.pipe()
    with open(reader, "rb"), open(writer, "wb") as out:
        out.write(b"a\nb\n")
        out.close()
        assert read_lines(f"/dev/fd/{reader}") == ["a", "b"]
        with pytest.raises(ValueError, match=r"/dev/fd/\d+: gave nothing; a pipe can be read only once: write it"):
            read_lines(f"/dev/fd/{reader}")


def test_a_folder_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is a folder") as error:
        read_lines(tmp_path)
    assert str(tmp_path) in str(error.value)


def test_an_unreadable_file_is_refused_by_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, b"a\n")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # chmod would not stop root
    with pytest.raises(ValueError, match=r"text\.en.*may not be read by this user"):
        read_lines(path)


LONG_GZ, SHORT_GZ = gzip.compress(b"text\n" * 999), gzip.compress(b"a\n")


@pytest.mark.parametrize(
    "content",
    [b"plain text\n", LONG_GZ[:-9], SHORT_GZ[:7]],
    ids=["not gzip", "cut at the end", "cut in the header"],  # the bytes hold the time of day
)
def test_a_damaged_gz_file_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"text\.gz: is damaged or no gzip file"):
        read_lines(path)


def test_a_gz_file_under_another_name_is_refused_with_the_right_name(tmp_path: Path) -> None:
    path = tmp_path / "text.en"
    path.write_bytes(gzip.compress(b"a\n"))
    with pytest.raises(ValueError, match=r"is compressed. Name it text\.en\.gz"):
        read_lines(path)


def test_pairs_are_lines_with_the_same_number(tmp_path: Path) -> None:
    source, target = (
        write(tmp_path / "a.en", b"a\n\nb\na\n"),
        write(tmp_path / "a.de.gz", b"A\r\nX\r\nB\r\n\xc3\x84\r\n"),
    )
    assert read_pairs(source, target) == [("a", "A"), ("", "X"), ("b", "B"), ("a", "Ä")]


def test_unequal_counts_are_refused_with_both(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a.en", b"a\nb\nc\n"), write(tmp_path / "a.de", b"a\n\nb\nc\n")
    with pytest.raises(ValueError, match=r"a\.en has 3 lines and .*a\.de has 4"):
        read_pairs(source, target)
    with pytest.raises(ValueError, match=r"a\.de has 4 lines and .*a\.en has 3"):
        read_pairs(target, source)


def test_the_faults_of_both_files_are_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"(?s)a\.en: line 1.*a\.de: there is no such file"):
        read_pairs(write(tmp_path / "a.en", b"\xff\n"), tmp_path / "a.de")


def pairs_of(count: int) -> list[tuple[str, str]]:
    return [(f"source {number}", f"target {number}") for number in range(count)]


def held_of(pairs: list[tuple[str, str]], **bounds: float) -> list[int]:
    """Indices of the pairs that `hold_out` takes."""
    hashes = np.frombuffer(b"".join(source_hash(source) for source, _ in pairs), np.uint8).reshape(-1, 16)
    eligible = np.array([bool(source.strip() and target.strip()) for source, target in pairs], dtype=bool)
    return hold_out(hashes, eligible, **bounds).tolist()


def held_by_groups(pairs: list[tuple[str, str]], share: float, most: int) -> list[int]:
    """The same, from the texts: a group for each source, those with the lowest hashes first, as far as they fit."""
    groups: dict[str, list[int]] = {}
    for index, (source, target) in enumerate(pairs):
        if source.strip() and target.strip():
            groups.setdefault(source, []).append(index)
    ranked = sorted(groups, key=lambda source: hashlib.blake2b(source.encode(), digest_size=16).digest())
    budget, held = max(1, min(most, int(share * len(pairs)))), []
    for source in ranked:
        if len(held) + len(groups[source]) <= budget:
            held += groups[source]
    return sorted(held or min((groups[source] for source in ranked), key=len))


@settings(deadline=None)
@given(
    sources=st.lists(st.sampled_from(["", *"abcdefgh"]), min_size=2).filter(lambda found: len(set(found) - {""}) > 1),
    share=st.floats(0.01, 0.9),
    most=st.integers(1, 9),
)
def test_the_holdout_by_hashes_is_that_by_texts(sources: list[str], share: float, most: int) -> None:
    pairs = [(source, str(number)) for number, source in enumerate(sources)]
    assert held_of(pairs, share=share, most=most) == held_by_groups(pairs, share, most)


def test_the_holdout_by_hashes_is_that_by_texts_for_many(corpora: Path) -> None:
    folder = corpora / "libreoffice_ui"
    pairs = read_pairs(folder / "en-de.en.gz", folder / "en-de.de.gz")
    assert held_of(pairs) == held_by_groups(pairs, 0.05, 2000)


def test_the_holdout_is_the_share() -> None:
    held = held_of(pairs_of(1_000))
    assert len(held) == 50
    assert held == sorted(held)


def test_the_holdout_is_no_more_than_the_most() -> None:
    assert len(held_of(pairs_of(1_000), share=0.5, most=17)) == 17


def test_the_holdout_does_not_depend_on_order_or_targets() -> None:
    pairs = pairs_of(300) + pairs_of(40)
    held = {pairs[index][0] for index in held_of(pairs)}
    random.Random(5).shuffle(pairs)
    changed = [(source, target + "!") for source, target in pairs]
    assert {changed[index][0] for index in held_of(changed)} == held


def test_a_larger_holdout_holds_what_a_smaller_one_held() -> None:
    assert set(held_of(pairs_of(1_000), share=0.03)) < set(held_of(pairs_of(1_000), share=0.2))


@settings(deadline=None)
@given(sources=st.lists(st.sampled_from("abcdefgh"), min_size=2).filter(lambda sources: len(set(sources)) > 1))
def test_the_holdout_keeps_the_same_source_on_one_side_and_leaves_some_on_both(sources: list[str]) -> None:
    held = held_of([(source, str(number)) for number, source in enumerate(sources)])
    valid = {sources[index] for index in held}
    train = {source for index, source in enumerate(sources) if index not in held}
    assert valid
    assert train
    assert not train & valid


def test_the_holdout_takes_no_pair_with_an_empty_side() -> None:
    pairs = [("", "a"), ("b", " "), ("c", "c"), ("d", "d"), ("", "")]
    assert set(held_of(pairs, share=0.9)) <= {2, 3}


@pytest.mark.parametrize("pairs", [[], [("a", "b")], [("a", "b"), ("a", "c")], [("a", "b"), ("", "c")]])
def test_one_source_cannot_be_held_out(pairs: list[tuple[str, str]]) -> None:
    told = f"two or more different source lines .* there are {min(len(pairs), 1)}: give more lines, or .*valid_source"
    with pytest.raises(ValueError, match=told):
        held_of(pairs)


def test_more_than_the_most_is_held_out_only_where_the_smallest_group_is_larger() -> None:
    pairs = [(source, str(number)) for source, size in (("a", 7), ("b", 5), ("c", 6)) for number in range(size)]
    assert held_of(pairs, share=0.9, most=4) == [7, 8, 9, 10, 11]
    assert len(held_of(pairs, share=0.9, most=5)) == 5
