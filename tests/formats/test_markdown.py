"""Markdown against markdown-it as it comes: after a translation it must see the same blocks and marks."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.footnote import footnote_plugin

from headway.formats.markdown import Markdown
from headway.formats.segment import FormatError, Segment, splice
from headway.text.codes import Code, Parts, codes, find_parts, joined, plain

FILES = sorted((Path(__file__).parent / "files" / "markdown").glob("*.md"))
ROOT = Path(__file__).parents[2]
INSTALLED = Path(sysconfig.get_paths()["purelib"])
TWIN = MarkdownIt("commonmark", {"maxNesting": 100}).enable(["table", "strikethrough"])
FOREIGN = re.compile(r"\$|\{|\[\^|^:|^(?:---|\+\+\+)\s*$|\[!|\[[ xX]\]", re.MULTILINE)
"""What is markup here and none for the twin."""


def read(data: bytes | str) -> list[Segment]:
    return list(Markdown(data if isinstance(data, bytes) else data.encode(), "a.md").segments())


def sources(data: bytes | str) -> list[Parts]:
    return [segment.source for segment in read(data)]


def rewritten(data: bytes | str, new: Callable[[str], str]) -> str:
    """The file with every piece of text replaced."""
    made = Markdown(data if isinstance(data, bytes) else data.encode(), "a.md")
    edits = []
    for segment in list(made.segments()):
        target = joined(new(part) if isinstance(part, str) else part for part in segment.source)
        edits += made.edits(segment, target, mark=False)
    return b"".join(splice(made.data, edits)).decode()


def written(data: str, target: str | Parts) -> str:
    """The file with its first segment translated."""
    made = Markdown(data.encode(), "a.md")
    edits = made.edits(next(made.segments()), (target,) if isinstance(target, str) else target, mark=False)
    return b"".join(splice(made.data, edits)).decode()


def structure(text: str, twin: MarkdownIt = TWIN) -> list[object]:
    """All that the twin sees, but for the text."""

    def seen(tokens: Sequence[Token]) -> Iterator[object]:
        for token in tokens:
            if token.type == "inline" or token.type == "image":
                yield ("image", token.attrs) if token.type == "image" else "inline"
                yield from seen(token.children or [])
            elif token.type not in ("text", "softbreak"):
                yield token.type, token.tag, token.markup, token.attrs, token.info, token.content

    return list(seen(twin.parse(text)))


def texts(text: str) -> list[str]:
    """The text of each block in which the twin sees any, without white space at ends, and with one space for more."""

    def seen(tokens: Sequence[Token]) -> str:
        found, auto = "", False
        for token in tokens:
            auto = token.markup == "autolink" if token.type.startswith("link") else auto
            auto = auto and token.type != "link_close"
            if token.type in ("softbreak", "hardbreak"):
                found += " "
            elif token.type in ("text", "image"):
                found += "" if auto or token.type == "image" else token.content
                found += seen(token.children or [])
        return found

    blocks = [seen(token.children or []) for token in TWIN.parse(text) if token.type == "inline"]
    return [" ".join(block.split()) for block in blocks if block.strip()]


def visible(parts: Parts) -> str:
    """The text that a reader sees of parts, code spans and the like left out."""
    shown = {"[ref]": "ref"}
    return "".join(
        part if isinstance(part, str) else shown.get(part.raw, " " if part.raw.endswith("\n") else "") for part in parts
    )


# Plain words, what looks like markup, other scripts; no white space at the ends, for that is not a translation's.
TEXT = st.one_of(
    st.sampled_from(
        ["Wort", "zwei Worte", "das 「ist」.", "1. x", "# x", "- x", "a|b", "*x*", "x_y_z", "(e)", ": [x]", "!"]
    ),
    st.text(st.sampled_from("ab1 *_~`[]()<>&;#-+=|!\\.:$^{}\"'é日「」שe\u0301"), min_size=1, max_size=12),
).filter(lambda text: text.strip(" ") == text != "")

WORDS = st.sampled_from(
    [
        *("word", "two words", "*em*", "**strong *both***", "~~gone~~", "`code`", "``a ` b``", "[link](u)", "日本語"),
        *('[a *b*](u "t")', "![alt](i.png)", "[![b](b)](l)", "<b>bold</b>", "<br>", "<https://x.y/z>", "[ref]", "\\*"),
        *(
            "[text][ref]",
            "&amp;",
            "a_b_c",
            "2 * 3",
            "AT&T",
            "x < y",
            "_em_",
            "**「太字」**",
            "back\\\nslash",
            "two  \nspaces",
        ),
    ]
)
LINE = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)
PARAGRAPH = st.lists(LINE, min_size=1, max_size=3).map("\n".join)


def indented(text: str, first: str, rest: str) -> str:
    return first + text.replace("\n", "\n" + rest)


CELL = LINE.map(lambda line: re.sub(r"\s*\n", " ", line))
BLOCK = st.recursive(
    st.one_of(
        PARAGRAPH,
        LINE.map(lambda line: "## " + re.sub(r"\s*\n", " ", line)),
        PARAGRAPH.map(lambda text: text + "\n==="),
        st.just("```\n*code*\n```"),
        st.just("---"),
        st.just("<div>\n*kept*\n</div>"),
        st.tuples(CELL, CELL, CELL).map(lambda cells: "| {} | x |\n|---|:-:|\n| {} | {} |".format(*cells)),
    ),
    lambda inner: st.tuples(
        st.lists(inner, min_size=1, max_size=2).map("\n\n".join),
        st.sampled_from([("> ", "> "), ("- ", "  "), ("1) ", "   "), ("* ", "  ")]),
    ).map(lambda made: indented(made[0], *made[1])),
    max_leaves=4,
)
DOCUMENT = st.lists(BLOCK, min_size=1, max_size=4).map(
    lambda made: "\n\n".join([*made, "[ref]: https://x.y 'T'"]) + "\n"
)

MARKS = (
    "** * _ ~~ ` `a` [x](y) ![a](b) [ ] ( ) < <b> </b> & &amp; \\ \\* - > # 1. | --- === : a b word ! $ {{x}} [^1] ```"
)
SOUP = st.lists(
    st.sampled_from([*MARKS.split(), " ", " ", " ", "\n", "\n", "\n\n", "\t", "    ", "  \n"]), max_size=25
).map("".join)


@settings(max_examples=40, deadline=None)
@given(DOCUMENT)
def test_the_text_of_the_segments_is_what_the_twin_sees(text: str) -> None:
    made = Markdown(text.encode(), "a.md")
    found = [" ".join(visible(segment.source).split()) for segment in made.segments()]
    assert found == [block for block in texts(text) if block != "ref"]
    assert [told for told in made.skipped.counts if "HTML" not in told] == []


@settings(max_examples=30, deadline=None)
@given(DOCUMENT, st.data())
def test_after_a_translation_the_twin_sees_the_same_marks_and_reads_the_new_text(
    text: str, data: st.DataObject
) -> None:
    made = Markdown(text.encode(), "a.md")
    edits, wanted = [], []
    for segment in list(made.segments()):
        target = joined(data.draw(TEXT) if isinstance(part, str) else part for part in segment.source)
        edits += made.edits(segment, target, mark=False)
        wanted.append(" ".join(visible(target).split()))
    after = b"".join(splice(made.data, edits)).decode()
    assert structure(after) == structure(text)
    assert [block for block in texts(after) if block != "ref"] == wanted


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("$**  \n\t**$ a", "$**  \n\t**$"),
        ("> a `x  \n>   y` b", "`x  \n>   y`"),
        ("- a `x\n    y\n  z` b", "`x\n    y\n    z`"),
    ],
)
def test_a_code_that_goes_over_lines_keeps_its_indent(text: str, kept: str) -> None:
    after = rewritten(text, lambda part: re.sub(r"\w+", "Wort", part))
    assert kept in after
    assert rewritten(after, lambda part: part) == after


@settings(max_examples=50, deadline=None)
@given(SOUP)
@example("$**  \n\t**$**")
def test_any_mixture_of_marks_comes_back_and_keeps_its_structure(text: str) -> None:
    made = Markdown(text.encode(), "a.md")
    segments = list(made.segments())
    edits = [edit for segment in segments for edit in made.edits(segment, segment.source, mark=False)]
    assert edits == []
    assert [told for told in made.skipped.counts if "HTML" not in told and "~~~" not in text] == []
    after = rewritten(text, lambda part: "Wort")
    again = [segment.source for segment in read(after)]
    assert again == [
        joined("Wort" if isinstance(part, str) else part for part in segment.source) for segment in segments
    ]


@settings(max_examples=40, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=12).map(" ".join), st.sampled_from(["", "> ", "- ", "1. ", "# ", "| "]))
def test_any_text_in_any_block_is_read_by_the_twin(text: str, opening: str) -> None:
    page = f"{opening}word" + (
        " | x |\n|---|---|" if opening == "| " else "" if opening == "# " else "\n" + " " * 3 + "word"
    )
    after = written(page, text)
    assert structure(after) == structure(page)
    assert texts(after)[0] == " ".join(text.split())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_example_keeps_its_structure_whatever_its_text_becomes(path: Path) -> None:
    text = path.read_bytes().decode("utf-8-sig")
    twin = MarkdownIt("commonmark").enable(["table", "strikethrough"]).use(footnote_plugin)
    for new in ("Etwas anderes", "1. *x* # [a](b) `c` <d> e_f_g & |", "「日本」"):
        assert structure(rewritten(text, lambda part, new=new: new), twin) == structure(text, twin)


def others() -> list[Path]:
    found = [path for path in sorted(INSTALLED.rglob("*.md")) if path.stat().st_size < 8_000]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *found[:: max(1, len(found) // 8)]]


def test_files_of_other_people_keep_their_structure_and_their_text_is_found() -> None:
    for path in others():
        text = path.read_bytes().decode()
        made = Markdown(text.encode(), path.name)
        segments = list(made.segments())
        assert [told for told in made.skipped.counts if "HTML" not in told] == [], path
        assert [edit for segment in segments for edit in made.edits(segment, segment.source, mark=False)] == []
        if not FOREIGN.search(text):
            assert len(segments) == len(texts(text)), path
        assert structure(rewritten(text, lambda part: re.sub(r"\w+", "wort", part))) == structure(text), path


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("a_b 2 * 3 AT&T 50% C# x < y a|b [0] ~5 !", "a_b 2 * 3 AT&T 50% C# x < y a|b [0] ~5 !"),
        ("*x*", "\\*x\\*"),
        ("_x_ and a_b", "\\_x\\_ and a_b"),
        ("&amp;", "\\&amp;"),
        ("<b>", "\\<b>"),
        ("# x", "\\# x"),
        ("1. x", "1\\. x"),
        ("- x", "\\- x"),
        ("+ x", "\\+ x"),
        ("> x", "\\> x"),
        ("===", "==="),
        ("---", "\\---"),
        ("c:\\dir\\*.txt", "c:\\dir\\\\\\*.txt"),
        ("[x]: y", "\\[x\\]: y"),
    ],
)
def test_no_more_is_escaped_than_must_be(text: str, spelled: str) -> None:
    after = written("word\n", text)
    assert after == spelled + "\n"
    assert texts(after) == [text]


def test_a_bar_in_a_cell_is_escaped() -> None:
    page = "| a | `x \\| y` b |\n|---|---|\n"
    assert written(page, "c|d") == "| c\\|d | `x \\| y` b |\n|---|---|\n"
    assert sources(page)[1] == (Code("`x \\| y`", markup=True), " b")


def test_marks_beside_other_scripts_stay_marks() -> None:
    page = "これは**太字**です。\n"
    after = written(page, ("これは", *codes_of("**"), "です。"))
    assert "<strong>「太字」</strong>です。" in TWIN.render(after)
    assert after == "これ&#12399;**「太字」**&#12391;す。\n"


def test_marks_left_out_of_a_segment_stay_marks_too() -> None:
    after = written("\\*~~<b>~~\n", "Wort")
    assert structure(after) == structure("\\*~~<b>~~\n")
    assert texts(after) == ["Wort"]


def codes_of(mark: str) -> Parts:
    return (Code(mark, "open", True, mark), "「太字」", Code(mark, "close", True, mark))


def test_a_wrapped_text_is_wrapped_again_with_its_prefix() -> None:
    page = "> - one two three four\n>   five six\n>   seven\n"
    after = written(page, "eins zwei drei vier fünf sechs sieben acht")
    assert after == "> - eins zwei drei\n>   vier fünf sechs\n>   sieben acht\n"
    assert structure(after) == structure(page)


def test_a_text_in_which_only_codes_were_found_stays_as_it_is() -> None:
    page = "See https://x.org/?a=1&amp;b=2\n&copy; {name}\n"
    assert written(page, find_parts(sources(page)[0])) == page
    assert len(codes(find_parts(sources(page)[0]))) == 2


def test_an_empty_translation_does_not_empty_a_heading() -> None:
    with pytest.raises(FormatError, match="line 1: the translation is empty"):
        written("# H {#id}\n", ())


def test_a_text_of_one_line_stays_on_one_line() -> None:
    assert written("one\n", "word " * 50 + "end") == "word " * 50 + "end\n"


def test_no_line_begins_with_what_would_begin_a_block() -> None:
    after = written(
        "one two\nthree four\n", "eins zwei - drei 1. vier # fünf > sechs === sieben --- acht + neun | zehn"
    )
    assert [token.type for token in TWIN.parse(after)] == ["paragraph_open", "inline", "paragraph_close"]
    assert "\\" not in after


def test_a_file_of_windows_stays_one() -> None:
    page = "> one two three\r\n> four\r\n"
    assert written(page, "eins zwei drei vier") == "> eins zwei\r\n> drei vier\r\n"


def test_what_is_code_and_what_is_text() -> None:
    page = 'See [the *guide*](u "t"), [ref], [text][ref], ![a wheel](w.png), `c`, <https://x.y> and <b>b</b>.  \nEnd\n'
    page += "\n[ref]: z\n"
    (parts,) = sources(page)
    assert [(code.raw, code.side, code.key) for code in codes(parts)] == [
        ("[", "open", '](u "t")'),
        ("*", "open", "*"),
        ("*", "close", "*"),
        ('](u "t")', "close", '](u "t")'),
        ("[ref]", "alone", "[ref]"),
        ("[", "open", "][ref]"),
        ("][ref]", "close", "][ref]"),
        ("![", "open", "](w.png)"),
        ("](w.png)", "close", "](w.png)"),
        ("`c`", "alone", "`c`"),
        ("<https://x.y>", "alone", "<https://x.y>"),
        ("<b>", "open", "<b>"),
        ("</b>", "close", "<b>"),
        ("  \n", "alone", "  \n"),
    ]
    assert plain(parts, "") == "See the guide, , text, a wheel, ,  and b.End"


def test_what_stays_outside_of_a_segment() -> None:
    page = "- [x] **done**\n\n> [!NOTE]\n> text\n\n# H {#id}\n\n[^1]: note\n\n![](x) pic\n"
    assert sources(page) == [("done",), ("text",), ("H",), ("note",), ("pic",)]
    assert written("> [!NOTE]\n> text\n", "Wort") == "> [!NOTE]\n> Wort\n"


@pytest.mark.parametrize(
    "kept",
    [
        "---\nt: x\n---\n",
        "--- \n# c\nt: |\n  One.\n \n  Two.\nlist:\n \n- a\n\n...\n",
        '---\n\n"t": x\n---\n',
        '---\n{\n  "t": 1\n}\n---\n',
        "+++\nt = 'x'\n+++\n",
        "+++\n[t]\nx = 1\n+++\n",
        "    code\n",
        "```{note}\nx\n```\n",
        "[a]: b 'c'\n",
        "$$\nx\n\ny\n$$\n",
        "***\n",
    ],
)
def test_what_is_not_translated(kept: str) -> None:
    assert sources(kept.replace("\n\n", "\n") + "\ntext\n") == [("text",)]


def test_rules_around_text_are_no_front_matter() -> None:
    assert sources("---\n\ntext\n\n---\nmore\n") == [("text",), ("more",)]
    assert sources("---\ntext\n---\nmore\n") == [("text",), ("more",)]
    for begins in ("# Title", "[Home](x) | [Docs](y)", '"Quote": he said.', "Note: read it.\n\n# Title", "{{ toc }}"):
        page = f"---\n{begins}\n\nHello world.\n\n---\n\nMore.\n"
        assert [visible(parts) for parts in sources(page)] == [text for text in texts(page) if text != "{{ toc }}"]
        assert ("Hello world.",) in sources(page)


@pytest.mark.parametrize(
    "matter",
    ["title: x\n\nfoo/bar: x", "title: x\n\n$schema: y", "og:title: Home", "<<: *base", "# c", "# c\n\ntitle: x"],
)
def test_front_matter_has_keys_of_any_kind_and_comments(matter: str) -> None:
    assert sources(f"---\n{matter}\n---\n\nHello.\n") == [("Hello.",)]


def test_a_colon_behind_the_first_line_makes_no_front_matter() -> None:
    page = "---\nThis release mends two faults.\nThanks: Anna and Bob.\n\n---\n"
    assert sources(page) == [("This release mends two faults. Thanks: Anna and Bob.",)]


def test_math_is_kept_only_where_it_is_math() -> None:
    (parts,) = sources("It costs $5 and $6, but $a_1*b*$ is math and \\$x$ is not.\n")
    assert [code.raw for code in codes(parts)] == ["$a_1*b*$"]


def test_html_that_is_not_translated_is_told() -> None:
    made = Markdown(b"text\n\n<p>\nkept\n</p>\n\n<!-- no text -->\n", "a.md")
    assert [segment.source for segment in made.segments()] == [("text",)]
    assert made.skipped.places == {"a block of HTML is not translated": ["line 3"]}


def test_what_is_nested_too_deep_is_told() -> None:
    made = Markdown(b"text\n\n" + b"> " * 200 + b"deep\n", "a.md")
    assert [segment.source for segment in made.segments()] == [("text",)]
    assert made.skipped.places == {"what is nested more than 100 deep is not translated": ["line 3"]}


@pytest.mark.parametrize(
    ("target", "told"),
    [(("",), "empty"), (("a\0b",), "U+0000"), (("\ud800",), "U+D800"), ((Code("[", "open", True), "a"), "codes")],
)
def test_what_cannot_be_written_is_refused_with_the_place(target: Parts, told: str) -> None:
    with pytest.raises(FormatError, match=r"a\.md: line 3: ") as caught:
        written("\n\n[a](b) c\n", target)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"a\ncaf\xe9", "line 2: byte 0xE9 is not utf-8"),
        (b"\xef\xbb\xbfcaf\xe9", "line 1: byte 0xE9 is not utf-8"),
        (b"\xff\xfea", "line 1: byte 0x61 is not utf-16-le"),
        (b"\xff\xfea\0", "it is in utf-16-le"),
        (b"<meta charset=latin-1>caf\xe9", "line 1: byte 0xE9 is not utf-8"),  # here it declares nothing
    ],
)
def test_a_file_that_is_not_utf_8_is_refused_with_the_one_remedy_there_is(data: bytes, told: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(data)
    assert caught.value.faults == [f"{told}. Convert it to UTF-8"]


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf", b"\n\n", b"```", b"***", b"[a]: b", b"`x`", b"![](x)"])
def test_a_file_without_text_has_no_segments(data: bytes) -> None:
    assert read(data) == []


@pytest.mark.parametrize(
    "odd", ["*a ", "[", "`a", "> ", "![", "<b>", "{{", "a\n", "- a\n", "|", "_a_ ", "&amp;", "[a](b) "]
)
def test_a_long_file_takes_time_that_grows_with_its_length(odd: str) -> None:
    read("x " + odd * 1_000)
