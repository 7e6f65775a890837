"""Codes sprinkled over pairs."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from headway.data.sprinkle import shared, sprinkle
from headway.text.codes import Code, codes, differences

X = ("The driver 7.2 of Mesa works with OpenGL 4, and Mesa 3.",)
Y = ("Der Treiber 7.2 von Mesa kann mit OpenGL 4 arbeiten, und Mesa 3.",)


def test_words_that_stand_once_on_either_side_are_shared() -> None:
    x, y = X[0], Y[0]
    assert [(x[slice(*a)], y[slice(*b)]) for a, b in shared(x, y)] == [(w, w) for w in ("7.2", "OpenGL", "4", "3")]
    assert shared("a b", "c d") == []


def test_both_sides_get_the_same_codes_beside_the_same_words() -> None:
    kinds = Counter()
    for salt in range(500):
        x, y = sprinkle(X, Y, 1.0, salt, 8)
        assert (x, y) == sprinkle(X, Y, 1.0, salt, 8)
        assert not differences(x, y)
        assert 1 <= len(codes(x)) <= 8
        beside = [dict(pairwise(side)) for side in (x, y)]
        for code in codes(x):
            kinds[code.side, code.raw[0]] += 1
            if code.raw[1:2].isdigit() and code.side == "open":  # around a shared word
                assert beside[0][code] == beside[1][code] in ("7.2", "OpenGL", "4", "3")
    assert min(kinds["open", "<"], kinds["close", "<"], kinds["alone", "{"], kinds["alone", "<"]) > 50


def test_the_share_is_kept_and_pairs_without_shared_words_get_codes_around_them() -> None:
    changed = sum(
        sprinkle(("so it is",), ("das ist so",), 0.3, salt, 8) != (("so it is",), ("das ist so",))
        for salt in range(2000)
    )
    assert 520 < changed < 680  # 600 within four standard deviations of 20.5
    found = {
        tuple(code.raw for code in codes(sprinkle(("it is",), ("das ist",), 1.0, salt, 8)[0])) for salt in range(50)
    }
    assert found == {("<>", "</>"), ("<|>",)}


def test_a_pair_with_codes_of_its_own_stays() -> None:
    own = (("a ", Code("%s")), ("b ", Code("%s")))
    assert sprinkle(*own, 1.0, 1, 8) == own
    assert sprinkle((), (), 1.0, 1, 8) == ((), ())
    assert sprinkle(X, Y, 0.0, 1, 8) == (X, Y)


def test_a_pair_with_more_codes_than_there_are_placeholders_stays_as_it_is() -> None:
    untouched = 0
    for salt in range(200):
        whole = sprinkle(X, Y, 1.0, salt, 8)
        few = sprinkle(X, Y, 1.0, salt, 3)
        assert few == (whole if len(codes(whole[0])) <= 3 else (X, Y))
        untouched += few == (X, Y)
    assert 20 < untouched < 180
