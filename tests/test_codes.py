"""Codes in text: found where they are and nowhere else, paired, kept by shielding, and missed when they are gone."""

import itertools
import string
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.text.codes import (
    PROSE,
    SPOKEN,
    TABLE,
    Code,
    Parts,
    accelerator,
    codes,
    differences,
    doubles,
    escaped,
    find,
    find_parts,
    guess_marker,
    joined,
    kinds_for,
    missing,
    plain,
    put_accelerator,
    shield,
    shield_as,
    shield_pair,
    unshield,
)

ALL = frozenset(row.kind for row in TABLE)
NASTY = "%s %d{}0<>/=b\"'`&;$()[]~|#:.!?@-_ \n\r\0\u00a0äßé\u0301日本語שלוםA1"
nasty = st.text(st.sampled_from(NASTY), max_size=60)


def found(text: str, kinds: frozenset[str] = PROSE) -> list[str]:
    return [code.raw for code in codes(find(text, kinds))]


# ---- the finder ----


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.kind}-{row.example}")
def test_every_row_finds_its_example(row) -> None:
    parts = find(f"one {row.example} two", frozenset({row.kind}))
    assert plain(parts) == f"one {row.example} two"
    assert any(code.side == row.side for code in codes(parts))
    assert not any(code.markup for code in codes(parts))
    if row.side == "alone":
        assert codes(parts) == [Code(row.example)]


@pytest.mark.parametrize(
    "text",
    [
        "50% discount, 20 % off",
        "100 % sicher, 5 %-ige Lösung, 100%ig",
        "a 10% increase in %difference",
        "It costs $5, or US$ 20",
        "AT&T, R&D; Q&A; B&B",
        "a < b and c > d, x <y and z> w, 1<2",
        "{ alone } and {see below}, {1, 2, 3}",
        "<empty> or <your name>, <file>, <title>",
        "`like this' and `that'",
        "his/her and/or km/h 24/7 1/2",
        "at 5:30, note: see http, www, and me@home",
        "Re: [1] (2) ~5 #6 *7* _8_ -- x",
        "Ärger & Öl @ 3 €",
        "",
        " \n",
    ],
)
def test_prose_holds_no_codes(text: str) -> None:
    assert find(text) == joined([text])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("%s of %1$s, %(name)s's %d%% %lu %5.2f", ["%s", "%1$s", "%(name)s", "%d", "%%", "%lu", "%5.2f"]),
        ("%sKB %@ %1 and %20, %{count} %<n>d", ["%s", "%@", "%1", "%20", "%{count}", "%<n>d"]),
        ("%d.%m.%Y", ["%d", "%m", "%Y"]),
        (
            "{} {0} {name!r:>8} {x: >8} {:%H:%M} {a.b[0]}",
            ["{}", "{0}", "{name!r:>8}", "{x: >8}", "{:%H:%M}", "{a.b[0]}"],
        ),
        (
            "{n, plural, one {# file in {dir}} other {# files}} and {d, date, short}",
            ["{n, plural, one {# file in {dir}} other {# files}}", "{d, date, short}"],
        ),
        ("{{x}} {{{y}}} {% if a %}z{% endif %}", ["{{x}}", "{{{y}}}", "{% if a %}", "{% endif %}"]),
        (
            "$HOME ${a b} $(ARG1) $[officename] %PRODUCTNAME %PATH%",
            ["$HOME", "${a b}", "$(ARG1)", "$[officename]", "%PRODUCTNAME", "%PATH%"],
        ),
        ("&amp; &#8230; &nbsp; &#xA0;", ["&amp;", "&#8230;", "&nbsp;", "&#xA0;"]),
        ("See (https://en.example.org/Foo_(bar)?q=%s).", ["https://en.example.org/Foo_(bar)?q=%s"]),
        ("http://example.orgを開く、www.example.org。", ["http://example.org", "www.example.org"]),
        ("Mail a.b@c.example, now", ["a.b@c.example"]),
        ("in /etc/apt/sources.list. And ~/.config/x/y", ["/etc/apt/sources.list", "~/.config/x/y"]),
        ("`x`, ``a 'b'``, :func:`len`", ["`x`", "``a 'b'``", ":func:`len`"]),
        ("see `the text <https://a.example>`_ here", ["`", " <https://a.example>`_"]),
        (
            "a<br/>b<br>c<img src='x>y' alt=\"\"/><!-- no -->",
            ["<br/>", "<br>", "<img src='x>y' alt=\"\"/>", "<!-- no -->"],
        ),
        ('<em>a</em> <a href="%s">b</a> <p>c', ["<em>", "</em>", '<a href="%s">', "</a>", "<p>"]),
    ],
)
def test_codes_of_prose(text: str, wanted: list[str]) -> None:
    assert found(text) == wanted
    assert plain(find(text)) == text


SPECS = [
    "%" + "".join(made)
    for made in itertools.product(
        ["", "-", "+", "0", "#", " "], ["", "3", "*"], ["", ".2", ".*"], ["", "l", "h"], "dsfxX"
    )
]


@given(st.lists(st.tuples(st.sampled_from([*SPECS, "%%"]), st.sampled_from(["", " of ", "KB", "\n", "ä"])), max_size=8))
def test_all_of_printf_where_the_text_is_a_format(pieces: list[tuple[str, str]]) -> None:
    text = "".join(spec + word for spec, word in pieces)
    assert found(text, kinds_for(frozenset({"c-format"}), "po")) == [spec for spec, _ in pieces]


def test_what_python_formats_is_what_is_found() -> None:
    for spec in SPECS:
        values = (3,) * spec.count("*") + ("s" if spec[-1] == "s" else 1,)
        assert isinstance(spec % values, str)  # Python agrees that this is a conversion


field = st.builds(
    lambda name, convert, spec: f"{{{name}{convert}{spec}}}",
    st.sampled_from(["", "0", "name", "a.b", "a[0]", "_x"]),
    st.sampled_from(["", "!r", "!s"]),
    st.sampled_from(["", ":>8", ":.2f", ": ^5", ":%Y-%m-%d", ":{width}", ":,"]),
)


@given(st.lists(st.tuples(st.sampled_from(["a ", "é, ", "{{", "}}", ""]), field), max_size=6))
def test_fields_are_those_of_pythons_own_parser(pieces: list[tuple[str, str]]) -> None:
    text = "".join(itertools.chain.from_iterable(pieces))
    wanted = []
    for _, name, spec, convert in string.Formatter().parse(text):
        if name is not None:
            wanted.append(f"{{{name}{f'!{convert}' if convert else ''}{f':{spec}' if spec else ''}}}")
    assert [raw for raw in found(text, frozenset({"brace", "doubled"})) if raw not in {"{{", "}}"}] == wanted


@given(nasty, st.sampled_from([PROSE, ALL, SPOKEN, frozenset()]))
def test_nothing_of_a_text_is_lost_and_finding_again_changes_nothing(text: str, kinds: frozenset[str]) -> None:
    parts = find(text, kinds)
    assert plain(parts) == text
    assert joined(parts) == parts
    assert find_parts(parts, kinds) == parts
    assert find_parts(find(text, ALL), kinds) == parts


def test_markup_of_a_file_stays_and_texts_around_it_are_searched() -> None:
    tag = Code('<g id="1">', "open", markup=True, key="1")
    assert find_parts(("%s ", tag, "x {0}")) == (Code("%s"), " ", tag, "x ", Code("{0}"))


def test_tags_get_the_key_of_the_tag_that_they_close() -> None:
    parts = find('<a href="1"><b>x</b></a><A href="2">y</a></i>')
    assert [(code.side, code.key) for code in codes(parts)] == [
        ("open", '<a href="1">'),
        ("open", "<b>"),
        ("close", "<b>"),
        ("close", '<a href="1">'),
        ("open", '<A href="2">'),
        ("close", '<A href="2">'),
        ("close", "<i>"),
    ]


def test_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"\['printff'\]: there are .*'printf'"):
        find("x", frozenset({"printff"}))


HOSTILE = r"""{ < % & ` $ {a: {n,plural, {n,plural,{a} {{ {% <a_b=" <a_b=' <a_b=""_ <a_ <!-- <!--- </ a@ a. a@a. http://
http://( http://a[ www.a /a a:\ :a :a:` `a_<b> `_<b> $(a $[a ${ %( %| ~' ~# &#1 &amp a <% @ _ ``a {a:{b}
([ %1 %- ' . -"""


@pytest.mark.parametrize("unit", [*HOSTILE.split(), " ", "\n", "a ", "\u00e9"])
def test_hostile_texts_take_no_quadratic_time(unit: str) -> None:
    """No clock: a pattern that takes quadratic time would go on for long, and the test would not end."""
    unit = unit.replace("_", " ")
    text = unit * (30_000 // len(unit))
    assert plain(find(text, ALL)) == text


@pytest.mark.parametrize("unit", "{<%&")
def test_a_megabyte_of_the_signs_of_codes_is_read(unit: str) -> None:
    text = unit * 1_000_000
    assert plain(find(text)) == text


@pytest.mark.parametrize(
    ("flags", "text", "wanted"),
    [
        ("", "50% discount %s", ["%s"]),
        ("c-format", "50% discount %s", ["% d", "%s"]),
        ("c-format", "%<PRIu64> bytes %'d", ["%<PRIu64>", "%'d"]),
        ("no-c-format", "50% discount %s", []),
        ("python-format", "%(name)s %(n) d", ["%(name)s", "%(n) d"]),
        ("python-brace-format", "{} {{x}} {0:>8}", ["{}", "{{x}}", "{0:>8}"]),
        ("python-brace-format", "a {{ b }} }}", ["{{ b }}", "}}"]),
        ("no-python-brace-format", "{x}", []),
        ("php-format", "%1$s %'.2d", ["%1$s"]),
        ("qt-format", "%1 %L2 %n files", ["%1", "%L2", "%n"]),
        ("qt-format", "100%1", ["%1"]),
        ("javascript-format", "%s", ["%s"]),
        ("boost-format", "%1% and %s", ["%1%", "%s"]),
        ("csharp-format", "{0,-5:N2}", ["{0,-5:N2}"]),
        ("sh-format", "$name", ["$name"]),
        ("scheme-format", "~a ~5,2f~%", ["~a", "~5,2f", "~%"]),
        ("fuzzy", "%s", ["%s"]),
    ],
)
def test_flags_of_a_po_entry_choose_the_kinds(flags: str, text: str, wanted: list[str]) -> None:
    kinds = kinds_for(frozenset(flags.split()), "po")
    assert [raw for raw in found(text, kinds) if raw != "%'.2d"] == wanted


def test_people_in_a_film_speak_no_placeholders() -> None:
    assert found("{Who} said $X at %s? See http://a.example", kinds_for(frozenset(), "srt")) == ["http://a.example"]


# ---- accelerators ----


@pytest.mark.parametrize(
    ("source", "marker", "text", "letter"),
    [
        ("&File", "&", "File", "F"),
        ("E_xit", "_", "Exit", "x"),
        ("Save ~As...", "~", "Save As...", "A"),
        ("R&&D && &More", "&", "R&D & More", "M"),
        ("名前(&F)...", "&", "名前...", "F"),
        ("Name (&N)", "&", "Name", "N"),
        ("snake__case _x", "_", "snake_case x", "x"),
        ("no marker", "&", "no marker", ""),
        ("two &of &them", "&", "two &of &them", ""),
        ("fish & chips", "&", "fish & chips", ""),
        ("AT&amp;T &nbsp;", "&", "AT&amp;T &nbsp;", ""),
        ("R&&D", "&", "R&D", ""),
        ("&Save && close", "&", "Save & close", "S"),
        ("Save && close", "&", "Save & close", ""),
        ("&A &B && C", "&", "&A &B && C", ""),
        ("snake__case", "_", "snake_case", ""),
        ("&", "&", "&", ""),
    ],
)
def test_an_accelerator_is_taken_out(source: str, marker: str, text: str, letter: str) -> None:
    assert accelerator(source, marker) == (text, letter)


@pytest.mark.parametrize(
    ("text", "marker", "letter", "put"),
    [
        ("Datei", "&", "d", "&Datei"),
        ("Alle Dateien", "_", "D", "Alle _Dateien"),
        ("Beenden", "~", "N", "Bee~nden"),
        ("Öffnen", "&", "x", "&Öffnen"),
        ("2D-Ansicht", "&", "x", "2&D-Ansicht"),
        ("%s öffnen", "&", "s", "%s &öffnen"),
        ("<b>Fett</b> b", "&", "b", "<b>Fett</b> &b"),
        ("F&E", "&", "E", "&F&&E"),
        ("名前", "&", "n", "名前(&N)"),
        ("名前を付けて保存...", "_", "A", "名前を付けて保存(_A)..."),
        ("パス：", "&", "p", "パス(&P)："),
        ("...", "&", "x", "(&X)..."),
        ("", "&", "x", "(&X)"),
    ],
)
def test_an_accelerator_is_put_where_it_is_seen_first(text: str, marker: str, letter: str, put: str) -> None:
    assert put_accelerator(text, marker, letter) == put


@given(nasty, st.sampled_from("&_~"), st.sampled_from("Fx1日"), st.booleans())
def test_what_was_put_is_taken_out_again(text: str, marker: str, letter: str, every: bool) -> None:
    taken, name = accelerator(put_accelerator(text, marker, letter, every), marker)
    assert taken == text
    assert name


def test_a_doubled_marker_is_the_character_and_is_doubled_again() -> None:
    """As Qt and GTK read labels: `&&` is shown as `&`, and a lone one not at all."""
    assert put_accelerator("Speichern & Schließen", "&", "S", every=True) == "&Speichern && Schließen"
    assert put_accelerator("Speichern & Schließen", "&", "S") == "&Speichern & Schließen"
    assert put_accelerator("名前 & 住所", "&", "N", every=True) == "名前 && 住所(&N)"
    assert escaped("A & B &amp; C", "&", every=True) == "A && B &amp; C"
    assert [doubles(text, "&") for text in ("R&&D", "&&&x", "R&D", "&amp;&lt;", "& &")] == [True, True, *[False] * 3]


@given(nasty, st.sampled_from("&_~"))
def test_every_marker_that_was_doubled_is_one_again(text: str, marker: str) -> None:
    assert accelerator(escaped(text, marker, every=True), marker) == (text, "")


@pytest.mark.parametrize("marker", ["", "&&", "a", " "])
def test_a_bad_marker_is_refused(marker: str) -> None:
    with pytest.raises(ValueError, match="marker"):
        accelerator("x", marker)
    with pytest.raises(ValueError, match="must be one letter"):
        put_accelerator("x", "&", "ab")


MENU = ["File", "Edit", "View", "Insert", "Format", "Tools", "Window", "Help", "Open", "Close"]


def test_a_file_with_accelerators_is_known_by_them() -> None:
    assert guess_marker([f"&{name}" for name in MENU]) == "&"
    assert guess_marker([f"Open _{name}" for name in MENU] + ["A long sentence, which has none."] * 50) == "_"
    assert guess_marker([f"{name}(~{name[0]})" for name in MENU] + MENU) == "~"


def test_no_accelerators_are_seen_where_there_are_none() -> None:
    assert guess_marker([]) is None
    assert guess_marker(MENU) is None
    assert guess_marker([f"{name.lower()}_name" for name in MENU]) is None
    assert guess_marker([f"{name}_{name}_x" for name in MENU]) is None
    assert guess_marker(["AT&T", "R&D", "Q&A", "B&B", "S&P", "M&M"]) is None
    assert guess_marker([f"&amp;{number} &lt;b&gt;" for number in range(20)]) is None
    assert guess_marker([f"&{name}" for name in MENU[:4]]) is None
    assert guess_marker(["&File"] * 100) is None


# ---- shielding ----

code = st.sampled_from(
    [Code("%s"), Code("{0}"), Code("<b>", "open"), Code("</b>", "close", key="<b>"), Code("<i/>", markup=True)]
)
parts_of = st.lists(code | st.sampled_from(["a", "b c", " "]), max_size=9).map(joined)


@given(parts_of)
def test_shielding_is_undone(parts: Parts) -> None:
    shielded, kept = shield(parts, 9)
    assert [part for part in shielded if isinstance(part, int)] == list(range(len(codes(parts))))
    assert kept == codes(parts)
    assert unshield(shielded, kept) == parts


def test_more_codes_than_placeholders_are_all_text() -> None:
    parts = ("a ", Code("%s"), Code("%d"), " b")
    assert shield(parts, 1) == (["a %s%d b"], [])
    assert shield(parts, 2) == (["a ", 0, 1, " b"], [Code("%s"), Code("%d")])
    assert shield((), 0) == ([], [])


def test_a_placeholder_of_no_code_is_shown_and_reported() -> None:
    assert unshield(["a ", 7], [Code("%s")]) == ("a ", Code("<x7>", markup=True))
    assert differences((Code("%s"),), unshield([7], [Code("%s")])) == ["`%s` missing", "`<x7>` invented"]


@given(parts_of, parts_of, st.integers(0, 8), st.integers())
def test_a_pair_shares_its_numbers(source: Parts, target: Parts, most: int, salt: int) -> None:
    one, two, three = shield_pair(source, target, most, salt, target)
    ours, theirs = ([part for part in side if isinstance(part, int)] for side in (one, two))
    assert sorted(ours) == sorted(theirs)
    assert len(set(ours)) == len(ours)
    assert all(0 <= number < most for number in ours)
    assert three == two  # a match has the numbers of the codes that it shares
    assert (one, two, []) == shield_pair(source, target, most, salt)
    common = (Counter((c.key, c.side) for c in codes(source)) & Counter((c.key, c.side) for c in codes(target))).total()
    assert len(ours) == (common if common <= most else 0)
    # Put back, each side is what it was, and a number stands for codes of one key and side.
    names = dict(zip(ours, kept_codes(source, one), strict=True))
    assert "".join(part if isinstance(part, str) else names[part].raw for part in one) == plain(source)
    assert "".join(part if isinstance(part, str) else names[part].raw for part in two) == plain(target)


def kept_codes(parts: Parts, shielded: list[str | int]) -> list[Code]:
    """The codes that became numbers, found by walking both."""
    text, numbers = plain(parts), []
    at = 0
    spans, start = {}, 0
    for part in parts:
        if isinstance(part, Code):
            spans[start] = part
        start += len(plain((part,)))
    for part in shielded:
        if isinstance(part, int):
            numbers.append(spans[at])
            at += len(spans[at].raw)
        else:
            assert text[at : at + len(part)] == part
            at += len(part)
    return numbers


def test_equal_codes_are_matched_in_order_and_those_of_one_side_are_text() -> None:
    source = (Code("%s"), "a", Code("%s"), Code("%d"))
    target = (Code("%s"), Code("{x}"), Code("%s"))
    one, two, match = shield_pair(source, target, 10, 1, (Code("%d"), Code("%s"), "b", Code("{x}"), Code("%s")))
    assert one == [one[0], "a", one[2], "%d"]
    assert two == [one[0], "{x}", one[2]]
    assert match == ["%d", one[0], "b{x}", one[2]]
    named, kept = shield(source, 10)
    assert named == [0, "a", 1, 2]
    assert shield_as((Code("%d"), "b", Code("%s"), Code("{x}"), Code("%s")), kept) == [2, "b", 0, "{x}", 1]


def test_every_placeholder_is_drawn_alike() -> None:
    pair = (Code("%s"), Code("%d")), (Code("%d"), Code("%s"))
    drawn = Counter(tuple(shield_pair(*pair, 5, salt)[0]) for salt in range(4_000))
    assert len(drawn) == 20  # all ordered pairs
    assert max(abs(count - 200) for count in drawn.values()) < 5 * 200**0.5


# ---- differences ----


def told(source: str, target: str) -> list[str]:
    return differences(find(source), find(target))


@pytest.mark.parametrize(
    ("source", "target", "wanted"),
    [
        ("%s in {0}", "{0} hat %s", []),
        ("%s", "nichts", ["`%s` missing"]),
        ("%s %s", "%s", ["`%s` missing (1 of 2)"]),
        ("%s", "%s %s", ["`%s` 2 times, 1 in the source"]),
        ("x", "{x}", ["`{x}` invented"]),
        ("<b>x</b>", "</b>x<b>", ["`</b>` before `<b>`"]),
        ("<b>x</b> <i>y</i>", "<b>x<i>y</b></i>", ["`<i>` and `</b>` cross"]),
        ("<b>x</b> <i>y</i>", "<i>x<b>y</b></i>", []),
        (
            "<b>x<i>y</b></i>",
            "<i>x<b>y</i></b>",
            ["tags that do not pair up in the source stand in another order"],
        ),
        ("<b>x<i>y</b></i>", "<b>y<i>x</b></i>", []),
        ("{% if x %}a{% else %}b{% endif %}", "{% if x %}b{% else %}a{% endif %}", []),
        ("{% url 'a' %} and {% static 'b' %}", "{% static 'b' %} und {% url 'a' %}", []),
        (
            "{% if x %}a{% else %}b{% endif %}",
            "{% if x %}a{% endif %}b{% else %}",
            ["`{% endif %}` stands where `{% else %}` belongs: keep their order"],
        ),
        ("<code>x</code> y", "<code>x</code>x</code> y", ["`</code>` stands in the text as well"]),
        ("<code>x</code> <file>", "<code>x</code> <file>", []),
        ("in %%(a)s", "%%(a)s", []),
        ("in %%(a)s", "%%(b)s", ["`%%(a)s` missing", "`%%(b)s` invented"]),
        ("begins with “https://”", "„https://“", []),
        ("<b>x</b><p>y", "<b>x<p></b>y", ["tags that do not pair up in the source stand in another order"]),
        ("<b>x</b><p>y", "<b>y</b><p>x", []),
        ("<b>x</b> y", "<b></b>x y", ["`<b>` has nothing in it"]),
        ("<b>x</b> y", "<b> </b>x y", ["`<b>` has nothing in it"]),
        ("<b>%s</b> y", "<b>%s</b> y", []),
        ("<b></b> <b>y</b>", "<b>y</b> <b></b>", []),
        ("%s's files", "%ss Dateien", []),  # filled in all the same
        ("Version %s on drive 5", "Laufwerk 5 %s", []),
        ("%s and %s", "%ss und", ["`%s` missing (1 of 2)"]),
        ("<b>%s</b> is x", "<b>5%</b>s ist x", ["`%s` missing"]),
        ("<a>x</a> <a href='z'>y</a>", "<a href='z'>y</a> <a>x</a>", []),
        ("<a>x</a> <a href='z'>y</a>", "<a>x <a href='z'>y</a></a>", ["`<a href='z'>` stands in another link"]),
        ("<a>x <a href='z'>y</a></a>", "<a><a href='z'>y</a> x</a>", []),
        ("<b>x</b> <abbr t='z'>y</abbr>", "<b>x <abbr t='z'>y</abbr></b>", []),
        ("<b></b> <b>y</b>", "y <b></b> <b></b>", ["`<b>` has nothing in it"]),
        ("<b>x</b>", "x</b>", ["`<b>` missing"]),
        ("%s of %d", "%d von %s", ["`%d` stands where `%s` belongs: number them (`%1$s`), or keep their order"]),
        ("%s of %d", "%2$d von %1$s", []),
        ("%s of %d", "%1$d von %2$s", ["`%1$s` missing", "`%2$d` missing", "`%1$d` invented", "`%2$s` invented"]),
        ("%1$s of %2$d", "%2$d von %1$s", []),
        ("%(a)s of %(b)d", "%(b)d von %(a)s", []),
        ("{} of {}", "{1} von {0}", []),
        ("{} of {!r:>3}", "{1!r:>3} von {0}", []),
        ("%m/%d/%Y %s", "%s %d.%m.%Y", []),
        ("100%% %s", "%s 100%%", []),
    ],
)
def test_differences_in_words(source: str, target: str, wanted: list[str]) -> None:
    assert told(source, target) == wanted


sequence = st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from(["open", "close"])), max_size=10)


@settings(max_examples=300)
@given(sequence)
def test_nesting_is_judged_as_by_striking_out_neighbours(order: list[tuple[str, str]]) -> None:
    """A sequence is well nested if striking out an opening code and its own closing one beside it, again and again,
    leaves nothing: that needs no stack. Codes that do not open and close as often are left out on both sides."""
    count = Counter(order)
    order = [(key, side) for key, side in order if count[key, "open"] == count[key, "close"]]
    target = [Code(f"{side} {key}", side, key=key) for key, side in order]  # pyright: ignore[reportArgumentType]
    source = [
        part
        for key in "xyz"
        for part in target
        if part.key == key and part.side == "open"
        for part in (part, Code(f"close {key}", "close", key=key))
    ]
    left = list(order)
    while at := next(
        (at + 1 for at in range(len(left) - 1) if left[at : at + 2] == [(left[at][0], "open"), (left[at][0], "close")]),
        0,
    ):
        del left[at - 1 : at + 1]
    assert bool(differences(source, target)) == bool(left)


def test_a_long_text_of_crossing_tags_is_judged_in_linear_time() -> None:
    source = "<b>x</b>" * 3_000
    target = "<b>" * 3_000 + "<i>" + "</b>" * 3_000 + "</i>"
    assert differences(find(source), find(source)) == []
    assert "`<b>` and" not in differences(find(source), find(target))[0]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('<a rel="noreferrer" …> for links', ['<a rel="noreferrer" …>']),
        ('<a href="x" download>y</a>', ['<a href="x" download>', "</a>"]),
        ("<input disabled> x", ["<input disabled>"]),
        ("<file name here> or <b and c>", []),
    ],
)
def test_attributes_without_a_value_are_attributes_where_it_is_a_tag_for_sure(text: str, wanted: list[str]) -> None:
    assert [code.raw for code in codes(find(text))] == wanted


@pytest.mark.parametrize(
    ("source", "target", "wanted"),
    [
        ("%s's files", "%ss Dateien", []),
        ("%s's files", "Dateien", ["%s"]),
        ("{a} %s {a}", "{a} %ss", ["{a}"]),
        ("<b>x</b> %s", "<b>x", ["</b>", "%s"]),
        ("%s to %s", "%2$s von %1$s", []),
        ("%s to %s", "%2$s", ["%s"]),
        ("{} of {}", "{1} von {0}", []),
        ("<b>%s</b> is x", "<b>5%</b>s ist x", ["%s"]),
    ],
)
def test_a_code_is_missing_where_its_characters_are_nowhere(source: str, target: str, wanted: list[str]) -> None:
    assert [code.raw for code in missing(find(source), find(target))] == wanted
