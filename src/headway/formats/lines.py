r"""Plain text in UTF-8, a line a segment: what a file without a kind of its own is read as.

A line ends at \n or \r\n and nowhere else, as in `headway.data.corpus`, which is the twin.
"""

from collections.abc import Iterator

from headway.formats.segment import CONVERT, Document, Edit, FormatError, Segment
from headway.text.codes import Parts, plain

BOM = b"\xef\xbb\xbf"
MOST_FAULTS = 20


class Lines(Document):
    kind = "text"
    suffixes = (".txt",)
    bilingual = False

    def segments(self) -> Iterator[Segment]:
        faults, start, number = list[str](), len(BOM) if self.data[: len(BOM)] == BOM else 0, 0
        blank = False
        while start < len(self.data) and len(faults) < MOST_FAULTS:
            found, number = self.data.find(b"\n", start), number + 1
            end = found if found >= 0 else len(self.data)
            raw = self.data[start:end].removesuffix(b"\r")
            try:
                text = raw.decode()
                if text.strip() and not faults:
                    yield Segment(f"line {number}", (text,), begins=blank, slot=(start, start + len(raw)))
                blank = not text.strip()
            except UnicodeDecodeError as error:
                faults.append(f"line {number}, byte {error.start + 1} is not UTF-8. {CONVERT}")
            start = end + 1
        if faults:
            raise FormatError(self.name, faults)

    def edits(self, segment: Segment, target: Parts, *, mark: bool) -> list[Edit]:
        """mark: there is no room for one in plain text."""
        text = plain(target)
        if text == plain(segment.source):
            return []
        if "\n" in text or text.endswith("\r"):
            raise FormatError(self.name, [f"{segment.place}: a line cannot hold {text!r}: a line would end in it"])
        try:
            return [Edit(segment.slot[0], segment.slot[1], text.encode())]
        except UnicodeEncodeError as error:
            wrong = f"{segment.place}: {error.object[error.start]!r} is no character"
            raise FormatError(self.name, [wrong]) from None
