"""What all commands share: their options, where they read and write, how they speak and end."""

import gzip
import json
import logging
import os
import shutil
import sys
import tempfile
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from typer.core import TyperGroup

log = logging.getLogger("headway")


class Device(StrEnum):
    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


class Dtype(StrEnum):
    float32 = "float32"
    bfloat16 = "bfloat16"


class Stop(StrEnum):
    first = "first"
    exact = "exact"


ModelFolder = Annotated[str, typer.Argument(metavar="MODEL", help="A model folder or a run folder.")]
SourceDocument = Annotated[
    str,
    typer.Argument(metavar="[FILE|-]", help="A text file or a document (.gz too), or - for lines of standard input."),
]
TextFile = Annotated[str, typer.Argument(metavar="[FILE|-]", help="A text file (.gz too), or - for standard input.")]
SourceFile = Annotated[str, typer.Option("--source", help="Source text, one sentence a line (.gz too).")]
DeviceOption = Annotated[Device, typer.Option("--device", help="Where to compute; auto takes a GPU if there is one.")]
ThreadsOption = Annotated[
    int | None, typer.Option("--threads", min=1, max=1024, help="CPU threads; torch's choice by default.")
]
DtypeOption = Annotated[Dtype, typer.Option("--dtype", help="Number format of the computation.")]
# What is not given is the model's own: the [search] of its recipe.
BeamOption = Annotated[
    int | None, typer.Option("--beam", min=1, help="Width of the beam; 1 is greedy; else 4, or as in the recipe.")
]
PenaltyOption = Annotated[
    float | None, typer.Option("--length-penalty", help="Alpha of the length penalty; else 0.6, or as in the recipe.")
]
StopOption = Annotated[
    Stop | None, typer.Option("--stop", help="first: as many ended as the beam is wide; exact: none can win.")
]
TagOption = Annotated[
    list[str] | None,
    typer.Option("--tag", help="A tag that the model was trained with, such as 2de. May be repeated."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Only warnings and errors on stderr.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, with all there is to know.")]


class Commands(TyperGroup):
    """Every command begins and ends through here, so that each fault has one exit code and one voice."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            own = command.context_class(command, parent=ctx, info_name=name)
            refuse_repeated(command.params, command.make_parser(own).parse_args(args=list(rest))[2])
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        try:
            if sys.stdout is None:
                raise ValueError("standard output is closed; send it to /dev/null if it is not wanted")
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:
            assert sys.stdout is not None
            # Whoever read us (`| head`) has enough. Python would complain once more when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except KeyboardInterrupt as interrupt:
            print(f"headway: {str(interrupt) or 'stopped'}", file=sys.stderr)
            raise typer.Exit(1) from None
        except ValueError as error:
            print(f"headway: {error}", file=sys.stderr)
            raise typer.Exit(2) from error
        except (OSError, ArithmeticError, MemoryError) as error:
            print(f"headway: the work failed: {error or type(error).__name__}", file=sys.stderr)
            raise typer.Exit(1) from error
        except (RuntimeError, AssertionError, LookupError, TypeError, AttributeError):
            # Our own fault, or the machine's: whoever mends it needs to see where.
            traceback.print_exc()
            raise typer.Exit(1) from None


def refuse_repeated(known: Sequence[Any], given: Sequence[Any]) -> None:
    """Raises ValueError for each option that is given twice and has one value: only the last would count."""
    options = [option for option in known if option.param_type_name == "option"]
    counts = Counter(param.name for param in given)
    twice = ["/".join([*one.opts, *one.secondary_opts]) for one in options if counts[one.name] > 1 and not one.multiple]
    if twice:
        several = ", ".join(max(option.opts, key=len) for option in options if option.multiple)
        told = f"of this command's options, {several} may be repeated" if several else "this command repeats no option"
        raise ValueError("\n".join([f"{option}: is given more than once; give it once" for option in twice] + [told]))


def speak(quiet: bool) -> None:
    """Words of the package go to stderr as plain lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.handlers[:] = [handler]
    log.propagate = False
    log.setLevel(logging.WARNING if quiet else logging.INFO)


def overrides(settings: list[str]) -> dict[str, Any]:
    """`a.b=c` each: c as TOML reads it, or else a plain string."""
    found: dict[str, Any] = {}
    for setting in settings:
        path, equals, value = setting.partition("=")
        if not equals or not path.strip():
            raise ValueError(f"--set {setting}: write it as path=value, such as --set train.steps=100")
        try:
            found[path.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[path.strip()] = value
    return found


@contextmanager
def output(path: str | None) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """Standard output, or a file (packed if .gz) that appears only when it is whole. Entered before the work, to refuse
    a bad path."""
    if path in (None, "-"):
        yield sys.stdout.buffer
        return
    target = Path(path)
    whole = not target.exists() or target.is_file()
    if whole:
        target = Path(os.path.realpath(path))  # what a link points to is written, and the link stays
    part = target.with_name(f".{target.name}.{os.getpid()}.part") if whole else target
    try:
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(f"no permission to write {target}")
        file = part.open("wb")
    except OSError as error:
        raise ValueError(
            f"{path}: cannot be written ({error.strerror or error}); name a file in a folder that you may write"
        ) from None
    try:
        with file:
            if Path(path).suffix == ".gz":
                with gzip.GzipFile(target.stem, "wb", fileobj=file, mtime=0) as packed:
                    yield packed
            else:
                yield file
        if whole:
            part.replace(target)
    except OSError as error:
        if error.filename is None and not isinstance(error, BrokenPipeError):
            raise OSError(error.errno, f"{error.strerror or error}: {path} was not written") from error
        raise
    finally:
        if whole:
            part.unlink(missing_ok=True)


def lines_of(path: str, out: str | None = None) -> Iterator[str]:
    """The lines of a file or of standard input. `out`: where results will go, which must be another place."""
    from headway.data.corpus import iter_lines, read_lines

    if path != "-":
        refuse_same([path], out)
        return iter(read_lines(path))
    if sys.stdin is None:
        raise ValueError("standard input is closed; name a file")
    return iter_lines(sys.stdin.buffer)


OTHER_KINDS = """
    adoc arb asciidoc ass axml csv dfxp dita ditamap doc docbook docx dtd epub fb2 fodt ftl gmo idml ini ipynb js
    json json5 jsonl jsx latex mdx mif mo mqxliff mqxlz mxliff ndjson odg odp ods odt opml org parquet pdf php plist
    ppt pptx properties qm rc resjson resw resx rst rtf sbv sdlppx sdltm sdlxliff shtml ssa strings stringsdict
    svelte svg tbx tex textile toml ts tsv tsx ttml ttx txlf txml vue wxl xaml xcstrings xht xlb xls xlsx xlz xml
    yaml yml
"""
"""Files that people translate and Headway does not read; not one of them is lines of plain text."""

MARKUP = {
    b"<?xml": "begins with <?xml, so it is XML",
    b"<!doctype": "begins with <!DOCTYPE, so it is HTML or XML",
    b"{\\rtf": "begins with {\\rtf, so it is RTF",
}
"""How a file begins, in small letters, that is no lines of plain text whatever its name."""


def refuse_other_kinds(path: str) -> None:
    """Raises ValueError for a named file that is no plain text, by its name or by what is in it; a pipe, which can be
    read but once, is judged by its name."""
    told = None
    if Path(path.removesuffix(".gz")).suffix.lower().removeprefix(".") in OTHER_KINDS.split():
        told = "is of a kind that is not read"
    elif path != "-" and Path(path).is_file():
        told = markup_of(Path(path))
    if told:
        told += ", and lines of it would be translated as plain text"
        stream = f"gunzip < {path} |" if path.endswith(".gz") else f"< {path}"
        remedy = f"Convert it to XLIFF or PO, or, if it is lines, give it as - ({stream})"
        raise ValueError(f"{path}: {told}. {remedy}")


def markup_of(path: Path) -> str | None:
    """Why this file is no plain text, or None."""
    from headway.data.corpus import opened

    with opened(path) as stream:
        start = stream.read(1 << 12).removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    return next((told for begins, told in MARKUP.items() if start.startswith(begins)), None)


@contextmanager
def whole_file(path: str) -> Iterator[str]:
    """A file by its name; for -, one that holds standard input."""
    if path != "-":
        yield path
        return
    if sys.stdin is None:
        raise ValueError("standard input is closed; name a file")
    with tempfile.TemporaryDirectory(prefix="headway-") as folder:
        file = Path(folder) / "standard input"
        with file.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        yield str(file)


def refuse_same(inputs: Sequence[str], *outputs: str | None) -> None:
    """Raises ValueError where a file is to be written that is read, or two into one."""
    named = [path for path in outputs if path is not None and path != "-"]
    places = [os.path.realpath(path) for path in named]
    read = {os.path.realpath(path) for path in inputs if path != "-"}
    for number, (path, place) in enumerate(zip(named, places, strict=True)):
        if place in read:
            raise ValueError(f"{path}: is the input as well; give -o another file")
        if place in places[:number]:
            raise ValueError(f"{path}: is to be written twice; name another file for one of them")


@contextmanager
def reported(path: str | None, title: str) -> Iterator[Callable[[Any], object]]:
    """What writes the sections of a report into a file, or does nothing where none is named. Entered before the work,
    to refuse a bad path."""
    if path is None:
        yield lambda sections: None
        return
    if not path.endswith((".html", ".json")):
        raise ValueError(f"{path}: name it .html for a page, or .json for data")
    from headway.evaluate.report import page, to_json

    make = to_json if path.endswith(".json") else page
    with output(path) as sink:
        yield lambda sections: sink.write(make(title, sections).encode())


def show_sections(sections: Any, examples: bool = True) -> None:
    """A report on the terminal, as words; without its examples where it went into a file as well."""
    from rich.console import Console

    from headway.evaluate.report import Examples, terminal

    terminal([one for one in sections if examples or not isinstance(one, Examples)], Console(stderr=True))


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False))
