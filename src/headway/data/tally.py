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


@dataclass
class Tally:
    """How often each reason occurred, and where first."""

    counts: dict[str, int] = field(default_factory=dict)
    places: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, place: str) -> None:
        """One thing that is left out. place: `line 5`, with its file where there are several."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        if len(shown := self.places.setdefault(reason, [])) < SHOWN:
            shown.append(place)

    def take(self, skipped: Skipped, label: str) -> None:
        """What a document gave no segment for. label: to put before its places."""
        for reason, count in skipped.counts.items():
            self.counts[reason] = self.counts.get(reason, 0) + count
            shown = self.places.setdefault(reason, [])
            shown += [label + place for place in skipped.places[reason]][: SHOWN - len(shown)]

    def words(self, total: int, max_len: int = 0) -> list[str]:
        """One sentence for each reason that occurred, with a few of its places. total: of what was seen."""
        told = []
        for reason, count in self.counts.items():
            lines = [place.removeprefix("line ") for place in self.places[reason]]
            plain = all(map(str.isdigit, lines))
            named = f"lines {', '.join(lines)}" if plain else "; ".join(self.places[reason])
            more = (", ..." if plain else "; ...") if count > len(lines) else ""
            what = REASONS.get(reason, f"their file could not give: {reason}").replace("{max_len}", str(max_len))
            told.append(f"left out {count:,} of {total:,} pairs that {what}: {named}{more}")
        return told
