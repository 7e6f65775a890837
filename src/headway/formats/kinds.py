"""The kinds of files by their suffixes: the one table that knows them all. A kind is imported when it is asked for.

A file of another name is plain text, which `headway.formats.lines` reads.
"""

from importlib import import_module
from pathlib import Path

from headway.formats.lines import Lines
from headway.formats.segment import Buffer, Document

KINDS = {
    ".po": "headway.formats.po.PO",
    ".pot": "headway.formats.po.PO",
    ".tmx": "headway.formats.tmx.TMX",
    ".xlf": "headway.formats.xliff.XLIFF",
    ".xliff": "headway.formats.xliff.XLIFF",
    ".html": "headway.formats.html.HTML",
    ".htm": "headway.formats.html.HTML",
    ".xhtml": "headway.formats.html.HTML",
    ".md": "headway.formats.markdown.Markdown",
    ".markdown": "headway.formats.markdown.Markdown",
    ".srt": "headway.formats.subtitles.SRT",
    ".vtt": "headway.formats.subtitles.VTT",
}
"""Suffix, in lower case, to the class that reads such files."""


def document_class(path: str | Path) -> type[Document] | None:
    """The class for files of this name (.gz after it or not), or None where they are none of ours: plain lines."""
    found = KINDS.get(Path(str(path).removesuffix(".gz")).suffix.lower())
    if found is None:
        return None
    module, _, name = found.rpartition(".")
    return getattr(import_module(module), name)


def read_document(data: Buffer, name: str, source: str | None = None, target: str | None = None) -> Document:
    """The document that these bytes of a file called `name` are."""
    return (document_class(name) or Lines)(data, name, source, target)
