"""Codes of a text as atoms of the vocabulary, which a model has learnt to copy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from headway.generate.constrain import Atoms
from headway.text.codes import Code, Parts, codes, is_link, keeps_order, linked, shield, shield_as, unshield
from headway.text.groups import Groups, paired, ungrouped
from headway.text.tokenizer import Tokenizer, TokenizerPair


class Placeholders:
    """The atoms <x0>, <x1> ... of a pair of vocabularies; num: how many both have."""

    def __init__(self, tokenizers: TokenizerPair) -> None:
        self.tokenizers = tokenizers
        there = set(tokenizers.source.atoms) & set(tokenizers.target.atoms)
        self.num = next(number for number in range(len(there) + 1) if f"<x{number}>" not in there)
        self.ids = [tokenizers.target.atom(f"<x{number}>") for number in range(self.num)]

    def fit(self, parts: Parts) -> bool:
        """Has this text codes, and are there atoms for all of them?"""
        return 0 < len(codes(parts)) <= self.num

    def encode(self, parts: Parts) -> tuple[list[int], list[Code]]:
        """What a model reads, and the codes that are atoms there, in the order of those."""
        named, kept = shield(parts, self.num)
        atom = self.tokenizers.source.atom
        return self.tokenizers.source.encode_parts([p if isinstance(p, str) else atom(f"<x{p}>") for p in named]), kept

    def encode_as(self, parts: Parts, kept: Sequence[Code], tokenizer: Tokenizer) -> list[int]:
        """Other parts beside that text, as ids of one of the two: codes that they share with it are the same atoms."""
        named = shield_as(parts, kept)
        return tokenizer.encode_parts([p if isinstance(p, str) else tokenizer.atom(f"<x{p}>") for p in named])

    def decode(self, tokens: Sequence[int], kept: Sequence[Code]) -> tuple[Parts, int]:
        """What a model wrote, with those codes in it, as one line; and how many characters had to be replaced."""
        named, replaced = list[str | int](), 0
        for is_code, some in groupby(tokens, self.ids.__contains__):
            if is_code:
                named += map(self.ids.index, some)
                continue
            text, number = self.tokenizers.target.decode_line(some)
            named, replaced = [*named, text], replaced + number
        return unshield(named, kept), replaced

    def banned(self, kept: Sequence[Code]) -> list[int]:
        """Tokens that the translation of a text with these codes cannot have."""
        allowed = set(self.ids) if kept else set()
        return [number for number in self.tokenizers.target.atom_ids if number not in allowed]

    def constraint(self, kept: Sequence[Code], groups: Groups) -> Atoms:
        """Each code once; a closing one behind its opening one. In their order: those that keep it, or hold one that
        does, and all that open or close, where these do not pair up. No link in another, unless the source has that."""
        partners, sided = paired(tuple(kept)), [at for at, code in enumerate(kept) if code.side != "alone"]
        tidy = partners is not None and all(at in partners for at in sided)
        inside = [codes(groups.get(code, (code,))) if code.side == "alone" else [] for code in kept]
        pairs = [(self.ids[at], self.ids[partners[at]]) for at in sided if kept[at].side == "open"] if tidy else []  # pyright: ignore
        alone = [self.ids[at] for at, code in enumerate(kept) if code.side == "alone" or not tidy]
        order = [
            self.ids[at]
            for at, code in enumerate(kept)
            if any(map(keeps_order, inside[at])) or (code.side != "alone" and not tidy)
        ]
        links = [at for at, code in enumerate(kept) if any(map(is_link, codes(groups.get(code, (code,)))))]
        apart = [self.ids[at] for at in links] if tidy and not any(linked(codes(ungrouped(kept, groups)))) else []
        size = self.tokenizers.target.vocab_size
        return Atoms(alone, pairs, kind=self.ids, vocab_size=size, order=order, apart=apart)
