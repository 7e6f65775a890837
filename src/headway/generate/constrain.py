"""Constraints on what a search may say: an automaton over token ids for each source, which `beam_search` walks.

A constraint forbids tokens, wants tokens, and says what is still unmet; an output may end where nothing is. Its states
are values, so hypotheses share it and no row knows its neighbours. `headway.generate.phrases` has those of words.

The slow twin of each tenant is a predicate over whole outputs in tests/contract/test_constraint.py, the suite that
every tenant must pass; tests/test_constrain.py enumerates whole searches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor


class Constraint(ABC):
    """What must hold of one output. States are hashable values, and no call changes anything that can be seen.

    The end of sentence is no token here: the search asks `done` instead.
    """

    @abstractmethod
    def start(self) -> Hashable:
        """The state before the first token."""

    @abstractmethod
    def step(self, state: Any, token: int) -> Hashable | None:
        """The state after one more token; None where the constraint forbids it."""

    @abstractmethod
    def forbidden(self, state: Any) -> Tensor | None:
        """(V,) bool, True for exactly the tokens that `step` answers with None; None where there are none.

        It may be shared: not to be written to.
        """

    @abstractmethod
    def unmet(self, state: Any) -> tuple[str, ...]:
        """What stands in the way of ending here, in words for the user."""

    def progress(self, state: Any) -> int:
        """How much of what must appear has appeared: hypotheses compete with those that have as much."""
        return 0

    def wanted(self, state: Any) -> Sequence[int]:
        """Tokens that lead on to what must still appear, to be tried however improbable they are.

        Where there are any, one of them raises `progress`.
        """
        return ()

    def done(self, state: Any) -> bool:
        """May the output end here?"""
        return not self.unmet(state)


class All(Constraint):
    """Several constraints at once. Their own guarantees hold together where they want different tokens."""

    def __init__(self, parts: Sequence[Constraint]) -> None:
        self.parts = tuple(parts)

    def start(self) -> tuple[Hashable, ...]:
        return tuple(part.start() for part in self.parts)

    def step(self, state: tuple[Any, ...], token: int) -> tuple[Hashable, ...] | None:
        after = []
        for part, before in zip(self.parts, state, strict=True):
            if (new := part.step(before, token)) is None:
                return None
            after.append(new)
        return tuple(after)

    def forbidden(self, state: tuple[Any, ...]) -> Tensor | None:
        masks = [part.forbidden(own) for part, own in zip(self.parts, state, strict=True)]
        given = [mask for mask in masks if mask is not None]
        return torch.stack(given).any(0) if given else None

    def unmet(self, state: tuple[Any, ...]) -> tuple[str, ...]:
        return tuple(chain.from_iterable(part.unmet(own) for part, own in zip(self.parts, state, strict=True)))

    def progress(self, state: tuple[Any, ...]) -> int:
        return sum(part.progress(own) for part, own in zip(self.parts, state, strict=True))

    def wanted(self, state: tuple[Any, ...]) -> Sequence[int]:
        return [token for part, own in zip(self.parts, state, strict=True) for token in part.wanted(own)]


class Prefix(Constraint):
    """The output begins with these tokens."""

    def __init__(self, tokens: Sequence[int], vocab_size: int) -> None:
        _check_ids(tokens, vocab_size)
        self.tokens, self.vocab_size = tuple(tokens), vocab_size

    def start(self) -> int:
        return 0

    def step(self, state: int, token: int) -> int | None:
        if state == len(self.tokens):
            return state
        return state + 1 if token == self.tokens[state] else None

    def forbidden(self, state: int) -> Tensor | None:
        if state == len(self.tokens):
            return None
        mask = torch.ones(self.vocab_size, dtype=torch.bool)
        mask[self.tokens[state]] = False
        return mask

    def unmet(self, state: int) -> tuple[str, ...]:
        missing = len(self.tokens) - state
        return (f"{missing} tokens of the forced start are missing",) if missing else ()

    def progress(self, state: int) -> int:
        return state

    def wanted(self, state: int) -> Sequence[int]:
        return self.tokens[state : state + 1]


Placed = tuple[tuple[int, ...], tuple[int, ...], bool]


class Atoms(Constraint):
    """Placeholders that are tokens of their own: each appears as often as it is listed, and no other of `kind` does.

    alone: ids, one for each time; pairs: (opening, closing) ids, one for each time, well nested and with something in
    them; kind: all ids of placeholders; order: ids that come in this order, each once; apart: ids (of pairs, the
    opening ones) of which none stands in another. A state is how many of each are left to come, the closing ids of what
    is open, and whether the last token opened a pair.
    """

    def __init__(
        self,
        alone: Sequence[int] = (),
        pairs: Sequence[tuple[int, int]] = (),
        *,
        kind: Iterable[int],
        vocab_size: int,
        order: Sequence[int] = (),
        apart: Sequence[int] = (),
    ) -> None:
        self.order = {token: tuple(order[:at]) for at, token in enumerate(order)}
        self.left = dict(sorted(Counter([*alone, *(opening for opening, _ in pairs)]).items()))
        self.closing = dict(pairs)
        self.apart = frozenset(apart)
        self.ends = frozenset(closing for opening, closing in pairs if opening in self.apart)
        roles = [*dict.fromkeys(alone), *chain.from_iterable(dict.fromkeys(pairs))]
        if twice := sorted(token for token, count in Counter(roles).items() if count > 1):
            raise ValueError(
                f"placeholders {twice}: one id cannot both stand alone, open and close, nor have two partners"
            )
        self.kind = frozenset([*kind, *roles])
        _check_ids(self.kind, vocab_size)
        self.vocab_size = vocab_size

    def start(self) -> Placed:
        return tuple(self.left.values()), (), False

    def step(self, state: Placed, token: int) -> Hashable | None:
        counts, opened, fresh = state
        if token not in self.kind:
            return counts, opened, False
        if opened and token == opened[-1]:
            return None if fresh else (counts, opened[:-1], False)
        if token not in self._turn(counts, opened):
            return None
        left = dict(zip(self.left, counts, strict=True))
        left[token] -= 1
        more = (self.closing[token],) if token in self.closing else ()
        return tuple(left.values()), opened + more, bool(more)

    def forbidden(self, state: Placed) -> Tensor | None:
        never = sorted(self.kind - set(self.wanted(state)))
        if not never:
            return None
        mask = torch.zeros(self.vocab_size, dtype=torch.bool)
        mask[never] = True
        return mask

    def unmet(self, state: Placed) -> tuple[str, ...]:
        counts, opened, _ = state
        missing = [f"placeholder {token} is missing" for token, n in zip(self.left, counts, strict=True) if n]
        return *missing, *(f"placeholder {token} must still close" for token in reversed(opened))

    def progress(self, state: Placed) -> int:
        counts, opened, _ = state
        return 2 * (sum(self.left.values()) - sum(counts)) - len(opened)  # an opening is 1, and its closing 1 more

    def wanted(self, state: Placed) -> Sequence[int]:
        counts, opened, fresh = state
        return [*([] if fresh else opened[-1:]), *self._turn(counts, opened)]

    def _turn(self, counts: Sequence[int], opened: Sequence[int]) -> list[int]:
        """What may come now, of what does not close."""
        left, barred = dict(zip(self.left, counts, strict=True)), not self.ends.isdisjoint(opened)
        return [
            token
            for token, n in left.items()
            if n and not (barred and token in self.apart) and not any(left[one] for one in self.order.get(token, ()))
        ]


def _check_ids(tokens: Iterable[int], vocab_size: int) -> None:
    if wrong := [token for token in tokens if not 0 <= token < vocab_size]:
        raise ValueError(f"{wrong[0]} is no token; the vocabulary has {vocab_size}, from 0 on")
