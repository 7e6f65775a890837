"""SRT and WebVTT. The independent readers are below: the collecting of blocks as the WebVTT standard has it (section
6.1), and a pattern for SRT."""

from __future__ import annotations

import html
import re
import unicodedata
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.formats.kinds import read_document
from headway.formats.segment import Document, FormatError, splice
from headway.text.codes import Code, Part, Parts, codes, joined, plain

FILES = sorted((Path(__file__).parent / "files" / "subtitles").iterdir())
TIMES = {"srt": "00:00:01,000 --> 00:00:02,000", "vtt": "00:01.000 --> 00:02.000"}
KINDS = pytest.mark.parametrize("kind", ["srt", "vtt"])


def subtitles(text: str | bytes, kind: str) -> Document:
    return read_document(text if isinstance(text, bytes) else text.encode(), f"x.{kind}")


def of_cues(kind: str, *texts: str) -> str:
    """A file with a cue for each text."""
    return "WEBVTT\n\n" * (kind == "vtt") + "\n".join(
        f"{number}\n{TIMES[kind]}\n{text}\n" for number, text in enumerate(texts, 1)
    )


def sources(text: str | bytes, kind: str) -> list[Parts]:
    return [segment.source for segment in subtitles(text, kind).segments()]


def written(text: str | bytes, kind: str, *targets: Parts | None) -> str:
    made = subtitles(text, kind)
    pairs = zip(list(made.segments()), targets, strict=True)
    changes = [edit for segment, to in pairs if to is not None for edit in made.edits(segment, to, mark=False)]
    return b"".join(splice(made.data, changes)).decode()


def translated(kind: str, cue: str, *target: Part) -> list[str]:
    """The lines of the text of a cue after `target` was written in the place of `cue`."""
    data = written(of_cues(kind, cue), kind, joined(target))
    return data[len(of_cues(kind, "")) - 1 : -1].split("\n")


# The independent readers.


def cues_of_srt(text: str) -> list[str]:
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n") + "\n\n"
    return re.findall(r"^\d[\d:.,]+ *--> *\d[\d:.,]+.*\n((?:.*\S.*\n)*)", text, re.M)


def cues_of_vtt(text: str) -> list[str]:
    """Step by step as the standard says it, for files without errors."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert lines[0].startswith("WEBVTT")
    at, found = 1, []
    while at < len(lines) and lines[at]:
        at += 1
    while at < len(lines):
        block = []
        while at < len(lines) and lines[at]:
            block.append(lines[at])
            at += 1
        at += 1
        arrow = next((number for number, line in enumerate(block) if "-->" in line), None)
        if arrow is not None:
            found.append("\n".join(block[arrow + 1 :]))
    return found


class Seen(HTMLParser):
    """The text of a cue without its tags, as HTML has it: the standard's entities are HTML's."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""

    def handle_data(self, data: str) -> None:
        self.text += data


def seen(cue: str, kind: str) -> str:
    if kind == "srt":
        return re.sub(r"</?(?:i|b|u|font)\b[^>]*>|\{\\.*?\}", "", cue)
    reader = Seen()
    reader.feed(re.sub(r"<[\d:.]+>", "", cue))
    reader.close()
    return reader.text


def bare(text: str) -> str:
    """Letters and signs alone: how lines are joined is not what is compared."""
    return re.sub(r"\s+", "", text)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_independent_reader_finds_the_same_texts(path: Path) -> None:
    kind, text = path.suffix[1:], path.read_bytes().decode()
    cues = cues_of_srt(text) if kind == "srt" else cues_of_vtt(text)
    found = [
        "".join(part if isinstance(part, str) else re.sub(r"^[<{].*", "", part.raw, flags=re.S) for part in source)
        for source in sources(text.encode(), kind)
    ]
    assert [bare(text) for text in found] == [bare(seen(cue, kind)) for cue in cues if seen(cue, kind).strip()]


@KINDS
def test_the_lines_of_a_cue_are_one_text_and_those_of_other_people_begin_with_a_code(kind: str) -> None:
    dash = Code("\n- ", markup=True)
    assert sources(of_cues(kind, "One\ntext."), kind) == [("One text.",)]
    assert sources(of_cues(kind, "- One\ntext.\n- And\nanother."), kind) == [("- One text.", dash, "And another.")]
    assert sources(of_cues(kind, "It was\n-5 degrees\n-- or so."), kind) == [("It was -5 degrees -- or so.",)]
    assert sources(of_cues(kind, "日本語の\n文です。\nTea と"), kind) == [("日本語の文です。 Tea と",)]
    assert sources(of_cues(kind, "한국어\n문장"), kind) == [("한국어 문장",)]
    assert sources(of_cues(kind, "a \n b"), kind) == [("a   b",)]
    (source,) = sources(of_cues(kind, "<i>- A</i>\n<i>–B</i>"), kind)
    assert [part if isinstance(part, str) else part.raw for part in source] == [
        *("<i>", "- A", "</i>", "\n", "<i>", "–", "B", "</i>")
    ]


def test_a_new_voice_keeps_its_line_in_vtt() -> None:
    (source,) = sources(of_cues("vtt", "<v Ada>Hi\nthere\n<v.low Bo>Ho"), "vtt")
    assert [part if isinstance(part, str) else part.raw for part in source] == [
        *("<v Ada>", "Hi there", "\n", "<v.low Bo>", "Ho")
    ]


@KINDS
def test_tags_pair_by_name_and_what_stands_alone_is_alone(kind: str) -> None:
    cue = "<i>a<b>b</i>c</b></u><i>d"
    (source,) = sources(of_cues(kind, cue), kind)
    assert [(code.raw, code.side, code.key) for code in codes(source)] == [
        ("<i>", "open", "<i>"),
        ("<b>", "open", "<b>"),
        ("</i>", "close", "<i>"),
        ("</b>", "close", "<b>"),
        ("</u>", "alone", "</u>"),
        ("<i>", "alone", "<i>"),
    ]
    assert plain(source) == cue


def test_each_kind_knows_its_own_tags() -> None:
    (source,) = sources(of_cues("srt", '{\\an8}<FONT color="#fff">a</Font> <3 {b} <c> a<b and c>d'), "srt")
    assert source[:4] == (
        Code("{\\an8}", markup=True),
        Code('<FONT color="#fff">', "open", markup=True),
        "a",
        Code("</Font>", "close", markup=True, key='<FONT color="#fff">'),
    )
    assert source[4] == " <3 {b} <c> a<b and c>d"
    (source,) = sources(of_cues("vtt", "<c.a.b>a</c> <00:01.500><lang de>b</lang> {\\an8}"), "vtt")
    assert [code.raw for code in codes(source)] == ["<c.a.b>", "</c>", "<00:01.500>", "<lang de>", "</lang>"]
    assert source[-1] == " {\\an8}"


ENTITIES = "&amp; &lt; &gt; &nbsp; &lrm; &rlm; &eacute; &#233; &#xE9; AT&T &unknown;"


def test_entities_are_text_in_vtt_and_nothing_special_in_srt() -> None:
    assert sources(of_cues("srt", ENTITIES), "srt") == [(ENTITIES,)]
    meant = "& < > \N{NO-BREAK SPACE} \N{LEFT-TO-RIGHT MARK} \N{RIGHT-TO-LEFT MARK} é é é AT&T &unknown;"
    assert sources(of_cues("vtt", ENTITIES), "vtt") == [(meant,)]
    assert written(of_cues("vtt", ENTITIES), "vtt", (meant,)) == of_cues("vtt", ENTITIES)  # unchanged: no edit
    assert translated("vtt", "x", "R&D &amp; 1 < 2 > 0 --> é") == ["R&amp;D &amp;amp; 1 &lt; 2 > 0 --&gt; é"]
    assert translated("srt", "x", "R&D &amp; 1 < 2 > 0 --> é") == ["R&D &amp; 1 < 2 > 0 --> é"]


def test_an_arrow_put_together_from_parts_does_not_end_a_cue() -> None:
    assert translated("vtt", "x", "a --", Code(">"), " b") == ["a --&gt; b"]


@KINDS
def test_a_translation_is_laid_out_in_even_lines_of_42_columns_or_the_longest_there_was(kind: str) -> None:
    words = "one two three four five six seven eight nine ten eleven"  # 55 letters and spaces
    assert translated(kind, "short", words) == ["one two three four five six", "seven eight nine ten eleven"]
    assert translated(kind, "x" * 55, words) == [words]
    assert translated(kind, "<i>" + "x" * 53 + "</i>\ny", words) == translated(kind, "x" * 53, words) != [words]
    assert translated(kind, "two\nlines", "one line") == ["one line"]
    assert translated(kind, "short", "x" * 60) == ["x" * 60]  # a word is not cut
    assert translated(kind, "short", Code("<i>", markup=True), words, Code("</i>", markup=True)) == [
        *("<i>one two three four five six", "seven eight nine ten eleven</i>")
    ]


@KINDS
def test_each_speaker_is_laid_out_alone(kind: str) -> None:
    words = "one two three four five six seven eight nine"
    dash = Code("\n- ", markup=True)
    assert translated(kind, "- A\n- B", f"- {words}", dash, words, dash, "ten") == [
        *("- one two three four five", "six seven eight nine"),
        *("- one two three four five", "six seven eight nine"),
        "- ten",
    ]


@KINDS
def test_a_line_does_not_begin_with_a_dash_that_nobody_speaks_at(kind: str) -> None:
    text = "a b c d e f g h " * 2 + "- i – j — k --> l " * 5 + "m n"
    lines = translated(kind, "short", text)
    assert len(lines) > 2
    assert not any(line.startswith(("-", "–", "—")) for line in lines)
    assert sources(of_cues(kind, "\n".join(lines)), kind) == [(text,)]


@KINDS
def test_text_without_spaces_is_cut_between_characters_and_not_before_a_full_stop(kind: str) -> None:
    text = "日本語の字幕は一行に二十字ほどしか入りません。だから、長い文は二行に分けます。"
    lines = translated(kind, "short", text)
    assert "".join(lines) == text
    assert len(lines) == 2
    assert abs(len(lines[0]) - len(lines[1])) <= 2
    mixed = "春 夏 秋 冬、" * 9 + "（Tea）を「飲む」。" * 5
    assert sources(of_cues(kind, "\n".join(translated(kind, "short", mixed))), kind) == [(mixed,)]


@pytest.mark.parametrize("eol", ["\n", "\r\n", "\r"])
@KINDS
def test_line_breaks_are_written_as_the_file_has_them(kind: str, eol: str) -> None:
    data = of_cues(kind, "One", "- Two\n- Three").replace("\n", eol).encode()
    second = list(subtitles(data, kind).segments())[1]
    assert second.source[1] == Code(f"{eol}- ", markup=True, key="\n- ")
    text = "word " * 12 + "end"
    new = written(data, kind, (text,), ("- Z", second.source[1], "D"))
    middle = f"word word word word word word{eol}word word word word word word end"
    assert new == of_cues(kind, "One", "- Z\n- D").replace("\n", eol).replace("One", middle)


@KINDS
def test_a_placeholder_is_text_and_a_line_break_in_a_text_is_a_space(kind: str) -> None:
    assert translated(kind, "x", "a\nb ", Code("%s & co"), "\r\nc") == [
        "a b %s & co c" if kind == "srt" else "a b %s &amp; co c"
    ]
    assert written(of_cues(kind, "a\nb"), kind, ("a\nb",)) == of_cues(kind, "a\nb")


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ((), "the translation is empty"),
        (("  ",), "the translation is empty"),
        (("see <i>this</i>",), "would be read as other markup"),
        (("see {\\an8} this",), "would be read as other markup"),
        (("00:00:01,000 --> 00:00:02,000",), "cannot hold the line '00:00:01,000"),
        ((Code("\n- ", markup=True), "a"), "cannot hold the line ''"),
        (("a", Code("\n", markup=True)), "cannot hold the line ''"),
        (("a\0",), r"U\+0000"),
        (("a\ud800",), "is no character"),
    ],
)
def test_what_srt_cannot_hold_is_refused_with_the_place(target: Parts, told: str) -> None:
    with pytest.raises(FormatError, match=rf"x.srt: line 3, cue 1: .*{told}"):
        written(of_cues("srt", "x"), "srt", target)


@pytest.mark.parametrize("target", [("see <i>this</i>",), ("00:01.000 --> 00:02.000",), ("{\\an8} &lt;",)])
def test_vtt_holds_what_srt_cannot(target: Parts) -> None:
    assert sources(written(of_cues("vtt", "x"), "vtt", target), "vtt") == [target]


@pytest.mark.parametrize("target", [(), ("  ",), ("a\0",), ("a\ud800",), ("a", Code("\n", markup=True))])
def test_what_no_subtitle_can_hold_is_refused_in_vtt_too(target: Parts) -> None:
    with pytest.raises(FormatError, match=r"x.vtt: line 5, cue 1: "):
        written(of_cues("vtt", "x"), "vtt", target)


S, V = TIMES["srt"], TIMES["vtt"]
REFUSED = {
    "malformed times": (
        "srt",
        f"1\n{S}\na\n\n2\n00:01 --> 00:02\nb\n\n3\n{S}x\nc\n",
        ["line 6: no valid", "line 10: no valid"],
    ),
    "vtt's times in srt are read, others are not": ("srt", f"1\n{V}\na", ["line 2: no valid times: .*00:01:02,345"]),
    "minutes beyond an hour": ("vtt", "WEBVTT\n\n00:61.000 --> 00:62.000\na", ["line 3: no valid times.*00:01:02.345"]),
    "srt's times in vtt": ("vtt", f"WEBVTT\n\n{S}\na", ["line 3: no valid times"]),
    "no times": ("srt", f"1\n{S}\na\n\nb\nc\n\n2\n{S}\nd", ["line 5: a text without times. .*empty line"]),
    "no times in vtt": ("vtt", f"WEBVTT\n\nhello\n\n{V}\na", ["line 3: a text without times"]),
    "no empty line": ("srt", f"1\n{S}\na\n2\n{S}\nb\n", ["line 5: times within a text"]),
    "no empty line before a number": ("vtt", f"WEBVTT\n\n{V}\na\n2\n{V}\nb\n", ["line 6: times within a text"]),
    "no empty line after the header": ("vtt", f"WEBVTT\n{V}\na\n", ['line 2: "-->" within the header']),
    "times in a comment": ("vtt", f"WEBVTT\n\nNOTE\n{V}\na\n", ['line 4: "-->" within a comment']),
    "text above the times": ("srt", f"1\n{S}\na\n\nb\n{S}\nc", ["line 5: 'b' is not the number of a cue"]),
    "two lines of times": ("vtt", f"WEBVTT\n\n0 --> 1\n{V}\nc", ["line 3: '0 --> 1' is not the number"]),
    "no header": ("vtt", f"{V}\na", ["line 1: must begin with WEBVTT"]),
    "a header with more": ("vtt", f"WEBVTTX\n\n{V}\na", ["line 1: must begin with WEBVTT"]),
    "a late header": ("vtt", f"\nWEBVTT\n\n{V}\na", ["line 1: must begin with WEBVTT"]),
    "an empty vtt": ("vtt", "", ["line 1: must begin with WEBVTT.*empty"]),
    "latin-1": (
        "srt",
        f"1\n{S}\nä\n\n2\n{S}\n\nöü".encode("latin-1"),
        [
            "line 3, byte 1 of the line: 0xE4 is not UTF-8.*iconv -f ENCODING",
            "line 8, byte 1.*0xF6",
            "line 8: a text without",
        ],
    ),
    "latin-1 in vtt": (
        "vtt",
        f"WEBVTT ä\n\n{V}\nöü".encode("latin-1"),
        ["line 1, byte 8.*0xE4", "line 4, byte 1.*0xF6"],
    ),
    "UTF-16": ("srt", f"1\n{S}\na".encode("utf-16"), ["is UTF-16. Convert it.*iconv -f UTF-16"]),
    "UTF-32, whose mark begins as that of UTF-16": ("srt", f"1\n{S}\na".encode("utf-32"), ["is UTF-32. Convert it"]),
    "UTF-16 vtt": ("vtt", f"WEBVTT\n\n{V}\na".encode("utf-16"), ["is UTF-16"]),
}


@pytest.mark.parametrize(("kind", "data", "faults"), REFUSED.values(), ids=REFUSED)
def test_broken_files_are_refused_with_all_lines_at_fault(kind: str, data: str | bytes, faults: list[str]) -> None:
    with pytest.raises(FormatError) as caught:
        sources(data, kind)
    message = str(caught.value)
    assert all(line.startswith(f"x.{kind}: ") for line in message.split("\n"))
    assert [fault for fault in faults if not re.search(fault, message)] == []
    assert len(caught.value.faults) == len(faults)


def test_many_faults_are_told_up_to_a_limit() -> None:
    with pytest.raises(FormatError) as caught:
        sources("text\n\n" * 10_000, "srt")
    assert len(caught.value.faults) == 20


def test_what_players_take_is_taken() -> None:
    assert sources("", "srt") == sources("\ufeff\n\n", "srt") == sources("WEBVTT", "vtt") == []
    assert sources(f"{S}\nno number\n \t\n 7 \n{S}  X1:1 X2:2 Y1:3 Y2:4 \nb", "srt") == [("no number",), ("b",)]
    assert sources(f"WEBVTT\tTitle\n\nNOTE x\n\n   \n\nNOTED\n{V}   line:0\na\n\nSTYLE \n::cue {{}}\n", "vtt") == [
        ("a",)
    ]
    assert sources(f"1\n{S}\n\n\n2\n{S}\n<i> </i>\n\n3\n{S}", "srt") == []  # no text, no segment
    assert sources(f"1\n{S}\n123\n\n2\n{S}\n --> \n", "srt") == [("123",), (" --> ",)]


def test_times_within_a_text_of_vtt_begin_the_next_cue() -> None:
    """Section 6.1 of the standard, step 13 of collecting a block: a line with an arrow ends the text before it."""
    text = f"WEBVTT\n\n{V} align:start\nyes\n<c>what</c>\n{V}\nthis\n\n \n  \nname\n{V}\nlast\n"
    assert [plain(parts, "") for parts in sources(text, "vtt")] == ["yes what", "this", "last"]
    assert written(text, "vtt", ("ja",), ("dies",), ("Ende",)) == (
        f"WEBVTT\n\n{V} align:start\nja\n{V}\ndies\n\n \n  \nname\n{V}\nEnde\n"
    )


def test_a_cue_is_named_by_its_line_and_number() -> None:
    assert [s.place for s in subtitles(of_cues("vtt", "a", "b\nc"), "vtt").segments()] == [
        "line 5, cue 1",
        "line 9, cue 2",
    ]
    assert [s.place for s in subtitles(f"{S}\na", "srt").segments()] == ["line 2"]


def cells(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


ALPHABET = st.one_of(
    st.characters(blacklist_categories=["Cs"], blacklist_characters="\0\r\n"),
    st.sampled_from(list("     abc-–<>&;{}\\/i日本。、（한")),
    st.sampled_from(["&amp;", "--", "-->", "<i>", "</b>", "{\\", " - ", "<v ", "日 本", "0:0:0,0 --> 0:0:0,0"]),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(ALPHABET, min_size=1, max_size=120).map("".join), st.sampled_from(["srt", "vtt"]))
def test_any_text_is_read_again_as_it_was_written_or_refused(text: str, kind: str) -> None:
    data = of_cues(kind, "old", "<i>next</i>")
    try:
        new = written(data, kind, (text,), None)
    except FormatError:
        assert kind == "srt" or not text  # VTT refuses nothing but an empty text
        assert not text.strip(" \t\v\f") or re.search(r"<|\{\\|-->", text)
        return
    found = sources(new, kind)
    if not text.strip():
        assert len(found) == 1
        return
    assert found == [(text,), sources(data, kind)[1]]
    cue = (cues_of_srt if kind == "srt" else cues_of_vtt)(new)[0].removesuffix("\n")
    assert bare(html.unescape(cue) if kind == "vtt" else cue) == bare(text)
    lines = (html.unescape(line) if kind == "vtt" else line for line in cue.split("\n"))
    assert all(cells(line) <= 42 or not breakable(line) for line in lines)


def breakable(line: str) -> bool:
    """Is there a plain place for a break: one space between two letters?"""
    return re.search(r"[a-z] [a-z]", line) is not None
