"""What was left out of a corpus: counts by reason, and the first places of each. Nothing else is dropped."""

from dataclasses import dataclass, field

from headway.data.clean import RULES
from headway.formats.segment import Skipped

SHOWN = 5
"""Places that are kept of each reason; the rest are counted."""

REASONS = {
    "untranslated": "have no translation yet",
    "unsure": "hold a translation that their file marks as unsure",
    "untouchable": "are marked as not to be translated",
    "unmatched": "are cues without one at the same time in the other file",
    "too_long": "have more than {max_len} tokens on a side",
    **{name: rule.told for name, rule in RULES.items()},
}
"""Why something gives no example, as words behind "pairs that"; and the rules of [data.clean]. What a
document skips has words of its own."""


def told(reason: str, max_len: int = 0) -> str:
    """A reason as words behind "pairs that"."""
    return REASONS.get(reason, f"their file could not give: {reason}").replace("{max_len}", str(max_len))


@dataclass
class Tally:
    """How often each reason occurred, and where first. notes: how often something is to be told of pairs that are not
    left out for it, its places among the others."""

    counts: dict[str, int] = field(default_factory=dict)
    places: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All that is left out."""
        return sum(self.counts.values())

    def add(self, reason: str, place: str) -> None:
        """One thing that is left out. place: `line 5`, with its file where there are several."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        if len(shown := self.places.setdefault(reason, [])) < SHOWN:
            shown.append(place)

    def take(self, skipped: Skipped, label: str) -> None:
        """What a document gave no segment for, and its notes. label: to put before its places."""
        for reason, count in skipped.counts.items():
            counts = self.notes if reason in skipped.notes else self.counts
            counts[reason] = counts.get(reason, 0) + count
            shown = self.places.setdefault(reason, [])
            shown += [label + place for place in skipped.places[reason]][: SHOWN - len(shown)]

    def words(self, total: int, max_len: int = 0) -> list[str]:
        """One sentence for each reason that occurred, with a few of its places. total: of what was seen."""
        left = [
            f"left out {count:,} of {total:,} pairs that {told(reason, max_len)}: {self.where(reason, count)}"
            for reason, count in self.counts.items()
        ]
        return left + self.noted(total)

    def noted(self, total: int) -> list[str]:
        """One sentence for each of the notes."""
        return [
            f"{reason}: in {count:,} of {total:,} pairs: {self.where(reason, count)}"
            for reason, count in self.notes.items()
        ]

    def where(self, reason: str, count: int) -> str:
        """The first places, for people; count: of all."""
        lines = [place.removeprefix("line ") for place in self.places[reason]]
        plain = all(map(str.isdigit, lines))
        named = f"lines {', '.join(lines)}" if plain else "; ".join(self.places[reason])
        return named + ((", ..." if plain else "; ...") if count > len(lines) else "")
