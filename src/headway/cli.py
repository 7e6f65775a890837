"""The command line: parse, call the API, print. Data goes to stdout, words to stderr.

Exit codes: 0 done, 1 the work failed, 2 the call or the config is wrong. Nothing heavy is imported until a command
runs, so that every `--help` answers at once.
"""

import gzip
import json
import logging
import os
import sys
import tomllib
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import IO, Annotated, Any

import typer
from typer.core import TyperGroup

from headway import __version__

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


class Kind(StrEnum):
    bpe = "bpe"
    char_bpe = "char_bpe"
    unigram = "unigram"
    wordpiece = "wordpiece"
    word = "word"


class Normalise(StrEnum):
    none = "none"
    NFC = "NFC"
    NFKC = "NFKC"


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
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Only warnings and errors on stderr.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, with all there is to know.")]


class Commands(TyperGroup):
    """Every command ends through here, so that each fault has one exit code and one voice."""

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


app = typer.Typer(
    name="headway",
    help="Train your own Transformer from the files you have, and translate with it.",
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
tokenizer_app = typer.Typer(
    help="Train a tokenizer, or use one on its own.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(tokenizer_app, name="tokenizer")
data_app = typer.Typer(help="Look at data before training on it.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_app, name="data")


def tell_version(asked: bool) -> None:
    if asked:
        print(f"headway {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=tell_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Train your own Transformer from the files you have, and translate with it."""


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
            f"{path}: cannot be written ({error.strerror or error}); give -o a file in a folder that you may write"
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
        refuse_same(path, out)
        return iter(read_lines(path))
    if sys.stdin is None:
        raise ValueError("standard input is closed; name a file")
    return iter_lines(sys.stdin.buffer)


def refuse_same(path: str, out: str | None) -> None:
    if out not in (None, "-") and os.path.realpath(path) == os.path.realpath(out):
        raise ValueError(f"{out}: is the input as well; give -o another file")


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


def show_sections(sections: Any) -> None:
    """A report on the terminal, as words."""
    from rich.console import Console

    from headway.evaluate.report import terminal

    terminal(sections, Console(stderr=True))


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False))


@app.command()
def demo(
    pair: Annotated[str, typer.Option("--pair", help="Languages of the built-in phrasebook.")] = "en-de",
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Folder for data and run; demo-PAIR by default.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change the recipe: path=value, such as train.steps=100.")
    ] = None,
    device: DeviceOption = Device.auto,
    threads: ThreadsOption = None,
    quiet: QuietOption = False,
) -> None:
    """Train on the built-in phrasebook, evaluate, translate; minutes on two cores."""
    speak(quiet)
    from headway import api

    api.demo(pair, out or f"demo-{pair}", set=overrides(settings or []), device=device, threads=threads, quiet=quiet)


@app.command()
def train(
    recipe: Annotated[
        str | None, typer.Argument(metavar="[RECIPE|NAME]", help="A TOML file, or one shipped by name.")
    ] = None,
    source: Annotated[str | None, typer.Option("--source", help="Source side of your own pair of files.")] = None,
    target: Annotated[str | None, typer.Option("--target", help="Target side, line by line.")] = None,
    out: Annotated[str | None, typer.Option("--out", "-o", help="The run folder; runs/NAME by default.")] = None,
    preset: Annotated[str | None, typer.Option("--preset", help="Model size, such as transformer-tiny.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change the recipe: path=value, such as train.steps=100.")
    ] = None,
    init: Annotated[str | None, typer.Option("--init", help="Start from this model's weights and tokenizer.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the run in --out was interrupted.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a run that is already in --out.")] = False,
    device: DeviceOption = Device.auto,
    threads: ThreadsOption = None,
    dtype: Annotated[Dtype | None, typer.Option("--dtype", help="Same as --set train.dtype=...")] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train from two parallel files or a recipe; ends with a score and the next command."""
    speak(quiet)
    changes = overrides(settings or [])
    if dtype is not None:
        changes["train.dtype"] = str(dtype)
    if preset is not None:
        changes["model.preset"] = preset
    if recipe is not None and (source or target):
        raise ValueError("give either a recipe or --source and --target; a recipe names its files under [data]")
    if recipe is None and not (source and target) and not resume:
        raise ValueError("nothing to train on: give --source and --target, or a recipe (`headway init DIR` writes one)")
    from headway import api

    result = api.train(
        recipe,
        source=source,
        target=target,
        out=out,
        set=changes,
        init=init,
        resume=resume,
        force=force,
        device=device,
        threads=threads,
        quiet=quiet,
    )
    print_json(result) if as_json else print(api.scores_text(result) if "bleu" in result else result["run"])


@app.command()
def translate(
    model: ModelFolder,
    file: SourceDocument = "-",
    out: Annotated[str | None, typer.Option("-o", "--out", help="Write here instead of standard output.")] = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    stop: StopOption = None,
    nbest: Annotated[
        int, typer.Option("--nbest", min=1, help="N > 1: print N for each line, as number, score, text.")
    ] = 1,
    tags: Annotated[
        list[str] | None,
        typer.Option("--tag", help="A tag that the model was trained with, such as 2de. May be repeated."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="In a document, translate also what has a finished translation.")
    ] = False,
    mark: Annotated[
        bool, typer.Option("--mark/--no-mark", help="In a document, mark what the model wrote as to be reviewed.")
    ] = True,
    memory: Annotated[
        list[str] | None,
        typer.Option("--memory", help="Reuse translations of this TMX, XLIFF or PO file. May be repeated."),
    ] = None,
    terms: Annotated[
        str | None, typer.Option("--terms", help="Keep to this term list; a line is source, tab, target or !target.")
    ] = None,
    report: Annotated[
        str | None, typer.Option("--report", help="Write what to look at in a document here, as .html or .json.")
    ] = None,
    device: DeviceOption = Device.auto,
    threads: ThreadsOption = None,
    dtype: DtypeOption = Dtype.float32,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Translate lines of text, as many out as in, or a document (PO, XLIFF, TMX, HTML, Markdown, SRT, VTT) by its name:
    only its texts are changed."""
    speak(quiet)
    from headway.formats.kinds import document_class

    search: dict[str, Any] = {"beam": beam, "length_penalty": length_penalty, "stop": stop, "tags": tags or []}
    if document_class(file) is not None:
        if nbest > 1 or as_json:
            raise ValueError("--nbest and --json are for lines of text; a document holds one translation of each text")
        options = {"everything": everything, "mark": mark, "memory": memory or [], "terms": terms}
        with reported(report, file) as keep, output(out) as sink:
            refuse_same(file, out)
            from headway import api

            loaded = api.load(model, device=device, dtype=dtype, threads=threads)
            found = api.translate_document(loaded, file, sink.write, **options, **search)
            keep(found)
        if not quiet:
            show_sections(found if report is None else found[:-1])
        return
    if everything or not mark or memory or terms or report:
        raise ValueError(
            f"{file}: --all, --no-mark, --memory, --terms and --report are for documents, and this is text"
        )
    with output(out) as sink:
        lines = lines_of(file, out)
        from headway import api
        from headway.generate.model import CHUNK_LINES

        loaded = api.load(model, device=device, dtype=dtype, threads=threads)
        alone = file == "-" and sys.stdin.isatty()
        results_of_lines = loaded.stream(
            lines,
            **search,
            n_best=nbest,
            lines_at_once=1 if alone else CHUNK_LINES,
        )
        for number, results in enumerate(results_of_lines, 1):
            if as_json:
                translations = [asdict(result) for result in results]
                row = json.dumps({"line": number, "translations": translations}, ensure_ascii=False)
                sink.write(f"{row}\n".encode())
            elif nbest == 1:
                sink.write(f"{results[0].text}\n".encode())
            else:
                sink.writelines(f"{number}\t{result.score:.6f}\t{result.text}\n".encode() for result in results)
            if alone:
                sink.flush()
        sink.flush()


@app.command()
def evaluate(
    model: ModelFolder,
    source: SourceFile,
    reference: Annotated[str, typer.Option("--reference", help="Reference translations, line by line.")],
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    stop: StopOption = None,
    device: DeviceOption = Device.auto,
    threads: ThreadsOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Translate a source file and score it against a reference: BLEU with its signature, chrF, TER, length ratio."""
    speak(quiet)
    from headway import api

    scores = api.evaluate(
        model,
        source,
        reference,
        beam=beam,
        length_penalty=length_penalty,
        stop=stop,
        device=device,
        threads=threads,
    )
    print_json(scores) if as_json else print(api.scores_text(scores))


@app.command()
def score(
    model: ModelFolder,
    source: SourceFile,
    target: Annotated[str, typer.Option("--target", help="Target text to score, line by line.")],
    device: DeviceOption = Device.auto,
    threads: ThreadsOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """The model's log-probability of each target line given its source; with --json also of each token."""
    speak(quiet)
    from headway import api
    from headway.data.corpus import read_pairs

    pairs = read_pairs(source, target)
    loaded = api.load(model, device=device, threads=threads)
    for result in loaded.score(pairs):
        if as_json:
            print_json({"logprob": result.logprob, "tokens": result.tokens, "token_logprobs": result.token_logprobs})
        else:
            print(f"{result.logprob:.6f}")


@app.command()
def show(
    what: Annotated[str, typer.Argument(metavar="MODEL|PRESET|RECIPE", help="A folder, a named size, or a recipe.")],
    vocab_size: Annotated[int | None, typer.Option("--vocab-size", min=5, help="For a preset: its vocabulary.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Parameters by part, FLOPs per target token, cache bytes per target token; needs no weights."""
    speak(quiet=False)
    from headway import api
    from headway.evaluate.cost import costs_text

    shown = api.show(what, vocab_size=vocab_size)
    print_json(shown) if as_json else print(costs_text(shown))


@app.command()
def init(folder: Annotated[str, typer.Argument(metavar="DIR", help="A new folder.")]) -> None:
    """Write a recipe to start from, every choice in it explained."""
    speak(quiet=False)
    from headway import api

    path = api.init(folder)
    recipe, run = quote(str(path)), quote(str(Path(folder) / "run"))
    log.info("wrote %s; name your two files in it, then: headway train %s --out %s", path, recipe, run)


@app.command()
def average(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Run folders (their kept checkpoints) or models.")
    ],
    out: Annotated[str, typer.Option("--out", "-o", help="Folder of the averaged model.")],
    last: Annotated[int | None, typer.Option("--last", min=1, help="Of each run only its last N checkpoints.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a model that is already in --out.")] = False,
) -> None:
    """Average the weights of checkpoints into one model."""
    speak(quiet=False)
    from headway import api

    count = api.average(runs, out, last=last, force=force)
    log.info("averaged %d sets of weights into %s; next: headway translate %s -", count, out, quote(out))


PlaceholdersOption = Annotated[
    int, typer.Option("--placeholders", min=0, help="Pieces <x0>, <x1> ... that no text gives, for codes to be copied.")
]
SeparatorOption = Annotated[bool, typer.Option("--separator", help="A piece <sep> that no text gives.")]
TagsOption = Annotated[
    list[str] | None, typer.Option("--tag", help="A piece <TAG> that no text gives, such as 2de. May be repeated.")
]


@tokenizer_app.command("train")
def tokenizer_train(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Text files (.gz too).")],
    out: Annotated[str, typer.Option("--out", "-o", help="Where to write tokenizer.json.")],
    vocab_size: Annotated[
        int, typer.Option("--vocab-size", min=5, help="Number of pieces, control tokens and bytes among them.")
    ] = 8000,
    kind: Annotated[
        Kind,
        typer.Option(
            "--kind", help="The first three keep every text; wordpiece and word lose words they cannot spell."
        ),
    ] = Kind.bpe,
    normalise: Annotated[Normalise, typer.Option("--normalise", help="Unicode form of all texts.")] = Normalise.none,
    placeholders: PlaceholdersOption = 0,
    separator: SeparatorOption = False,
    tags: TagsOption = None,
) -> None:
    """Train one vocabulary on text files."""
    speak(quiet=False)
    from headway.data.corpus import read_lines
    from headway.text.tokenizer import Tokenizer

    table = {"vocab_size": vocab_size, "normalise": normalise.value, "placeholders": placeholders}
    config = tokenizer_config(kind.value, {**table, "separator": separator, "tags": tags or []})
    with output(out) as sink:  # a bad path is said before the work, not after it
        texts = [line for file in files for line in read_lines(file)]
        trained = Tokenizer.train(texts, config)
        sink.write(trained.to_json().encode())
    log.info("wrote %s: %d pieces from %d lines", out, trained.vocab_size, len(texts))
    log.info("%s", vocabulary_text(trained, texts))


def tokenizer_config(kind: str, table: dict[str, Any]) -> Any:
    """A recipe's [tokenizer] from options. Raises ValueError with every fault."""
    from headway.config import TokenizerConfig, check_tokenizer
    from headway.strict import ConfigError, kinds, validate, variants

    [found] = [cls for cls in variants(TokenizerConfig) if kind in kinds(cls)]
    config, faults = validate(found, table, ("tokenizer",))
    if config is None or (faults := list(check_tokenizer(config))):  # pyright: ignore
        raise ConfigError(faults, "the call")
    return config


def vocabulary_text(tokenizer: Any, texts: list[str]) -> str:
    """How well a vocabulary fits texts, for a person."""
    from headway.text.tokenizer import UNK

    rows = tokenizer.encode_batch(texts)
    tokens, words = sum(map(len, rows)), sum(len(text.split()) for text in texts)
    unknown, used = sum(row.count(UNK) for row in rows), {number for row in rows for number in row}
    pieces = range(tokenizer.atom_ids.stop, tokenizer.vocab_size)
    longest = sorted(pieces, key=lambda number: (-len(tokenizer.piece_bytes(number)), number))[:8]
    told = {
        "characters per token": f"{sum(map(len, texts)) / max(1, tokens):.2f}",
        "tokens per word": f"{tokens / max(1, words):.2f}",
        "unknown": f"{100 * unknown / max(1, tokens):.2f} % of {tokens:,} tokens",
        "pieces in use": f"{len(used.intersection(pieces)):,} of {len(pieces):,}",
        "longest pieces": " ".join(map(shown, map(tokenizer.piece, longest))),
    }
    return "\n".join(f"{name:22}{value}" for name, value in told.items())


def shown(piece: str) -> str:
    """A piece without spaces in it, so that several fit on a line."""
    return "".join(x if x.isprintable() else x.encode("unicode_escape").decode() for x in piece.replace(" ", "\u2581"))


@tokenizer_app.command("import")
def tokenizer_import(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="SentencePiece .model, tokenizer.json, .tiktoken ranks, t2t .subwords."),
    ],
    out: Annotated[str, typer.Option("--out", "-o", help="Where to write tokenizer.json.")],
    placeholders: PlaceholdersOption = 0,
    separator: SeparatorOption = False,
    tags: TagsOption = None,
) -> None:
    """Make a vocabulary from elsewhere one of ours: control tokens first, then what no text gives, then the pieces."""
    speak(quiet=False)
    from headway.text.tokenizer import Tokenizer

    table = {"path": file, "placeholders": placeholders, "separator": separator, "tags": tags or []}
    config = tokenizer_config("file", table)
    with output(out) as sink:
        made = Tokenizer.read(file, config.atoms)
        sink.write(made.to_json().encode())
    kept = "every text comes back" if made.lossless else "not every text comes back as it was"
    log.info("wrote %s: %d pieces; %s", out, made.vocab_size, kept)


def load_tokenizer(path: str) -> Any:
    from headway.text.tokenizer import TOKENIZER, Tokenizer

    return Tokenizer.load(Path(path) / TOKENIZER if Path(path).is_dir() else Path(path))


TokenizerFile = Annotated[
    str, typer.Argument(metavar="TOKENIZER", help="A tokenizer.json, or a folder that holds one.")
]


@tokenizer_app.command("encode")
def tokenizer_encode(
    tokenizer: TokenizerFile,
    file: TextFile = "-",
    pieces: Annotated[
        bool, typer.Option("--pieces", help="Show the pieces; a space in one is shown as \u2581.")
    ] = False,
) -> None:
    """Text in, numbers of its pieces out, line by line."""
    speak(quiet=False)
    loaded = load_tokenizer(tokenizer)
    for line in lines_of(file):
        ids = loaded.encode(line)
        if pieces:
            sys.stdout.buffer.write(f"{' '.join(shown(loaded.piece(number)) for number in ids)}\n".encode())
        else:
            print(*ids)


@tokenizer_app.command("decode")
def tokenizer_decode(tokenizer: TokenizerFile, file: TextFile = "-") -> None:
    """Numbers in, text out, line by line."""
    speak(quiet=False)
    loaded, replaced = load_tokenizer(tokenizer), 0
    for number, line in enumerate(lines_of(file), 1):
        try:
            ids = [int(word) for word in line.split()]
        except ValueError:
            raise ValueError(f"line {number}: {line[:60]!r} is not a list of numbers") from None
        unknown = [token for token in ids if not 0 <= token < loaded.vocab_size]
        if unknown:
            raise ValueError(f"line {number}: {unknown[0]} is no piece; the vocabulary has {loaded.vocab_size}")
        text, count = loaded.decode_line(ids)
        replaced += count
        sys.stdout.buffer.write(f"{text}\n".encode())
    if replaced:
        log.warning("%d characters that cannot stand in a line of text were replaced", replaced)


@data_app.command("report")
def data_report(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A TOML file, or one shipped by name.")],
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Write it here, as .html or .json, instead of showing it.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change the recipe: path=value, such as data.max_len=100.")
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """What is kept, held out and left out, and why; lengths, pieces and padding; what cleaning would do. Nothing is
    trained but the tokenizer."""
    speak(quiet)
    with reported(None if out == "-" else out, f"Data of {recipe}") as keep:
        from rich.console import Console

        from headway import api
        from headway.evaluate.report import terminal

        sections = api.data_report(recipe, set=overrides(settings or []))
        keep(sections)
        if out in (None, "-"):
            terminal(sections, Console())


def main() -> None:
    # How long a thread of torch's spins while it waits for the others, read when torch is imported. Beside another busy
    # process the default of 300,000 turns is several times slower; this costs a few percent on one at rest (LOG.md).
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    app(prog_name="headway")


if __name__ == "__main__":
    main()
