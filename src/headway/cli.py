"""The command line: parse, call the API, print. Data goes to stdout, words to stderr.

Exit codes: 0 done, 1 the work failed, 2 the call or the config is wrong. Nothing heavy is imported until a command
runs, so that every `--help` answers at once.
"""

import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from headway import __version__
from headway.terminal import (
    BeamOption,
    Commands,
    Device,
    DeviceOption,
    Dtype,
    DtypeOption,
    JsonOption,
    ModelFolder,
    PenaltyOption,
    QuietOption,
    SourceDocument,
    SourceFile,
    StopOption,
    TagOption,
    TextFile,
    ThreadsOption,
    lines_of,
    output,
    overrides,
    print_json,
    refuse_other_kinds,
    refuse_same,
    reported,
    show_sections,
    speak,
    whole_file,
)

log = logging.getLogger("headway")


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


app = typer.Typer(
    name="headway",
    help="Train your own Transformer from the files you have, and work with it.",
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

tokenizer_app = typer.Typer(
    help="Train a tokenizer, or use one on its own.", cls=Commands, no_args_is_help=True, rich_markup_mode=None
)

app.add_typer(tokenizer_app, name="tokenizer")

data_app = typer.Typer(
    help="Look at data before training on it.", cls=Commands, no_args_is_help=True, rich_markup_mode=None
)

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
    """Train your own Transformer from the files you have, and work with it."""


@app.command()
def demo(
    pair: Annotated[str, typer.Option("--pair", help="Two of the languages of the phrasebook: en, de, ja.")] = "en-de",
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
    if recipe is None and (source is None) != (target is None):
        given, lacks = ("--source", "--target") if target is None else ("--target", "--source")
        raise ValueError(f"{lacks} is missing: {given} is one side; name the file of the other, line by line")
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
    tags: TagOption = None,
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
    source_language: Annotated[
        str | None, typer.Option("--source-language", help="Of documents and memories that hold several, as en-GB.")
    ] = None,
    target_language: Annotated[
        str | None, typer.Option("--target-language", help="Likewise; else both languages are the model's.")
    ] = None,
    report: Annotated[
        str | None, typer.Option("--report", help="Write what to look at here, as .html or .json.")
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
    is_text = document_class(file) is None
    if is_text and (everything or not mark):
        raise ValueError(f"{file}: --all and --no-mark are for documents that hold translations, and this is text")
    if is_text and not memory and (source_language or target_language):
        told = "--source-language and --target-language are for documents and memories, and this is text"
        raise ValueError(f"{file}: {told}. The model's languages are those of its recipe")
    if is_text:
        refuse_other_kinds(file)
    if not is_text or memory or terms or report:
        if nbest > 1 or as_json:
            told = "; take --report x.json for all there is to know" if is_text else ""
            raise ValueError(f"--nbest and --json are for lines of text without --memory, --terms and --report{told}")
        options: dict[str, Any] = {"everything": everything, "mark": mark, "memory": memory or [], "terms": terms}
        options |= {"source_language": source_language, "target_language": target_language}
        refuse_same([file, *(memory or []), *([terms] if terms else [])], out, report)
        with reported(report, file) as keep, output(out) as sink, whole_file(file) as path:
            from headway import api

            loaded = api.load_pair(model, device=device, dtype=dtype, threads=threads)
            name = "standard input" if file == "-" else None
            found = api.translate_document(loaded, path, sink.write, name=name, **options, **search)
            keep(found)
        if not quiet:
            show_sections(found, examples=report is None)
        return
    with output(out) as sink:
        lines = lines_of(file, out)
        from headway import api
        from headway.generate.model import CHUNK_LINES

        loaded = api.load_pair(model, device=device, dtype=dtype, threads=threads)
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
    tags: TagOption = None,
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
        tags=tags or [],
        device=device,
        threads=threads,
    )
    print_json(scores) if as_json else print(api.scores_text(scores))


@app.command()
def score(
    model: ModelFolder,
    source: SourceFile,
    target: Annotated[str, typer.Option("--target", help="Target text to score, line by line.")],
    tags: TagOption = None,
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
    loaded = api.load_pair(model, device=device, threads=threads)
    for result in loaded.score(pairs, tags or []):
        if as_json:
            print_json({"logprob": result.logprob, "tokens": result.tokens, "token_logprobs": result.token_logprobs})
        else:
            print(f"{result.logprob:.6f}")


@app.command()
def generate(
    model: ModelFolder,
    prompt: Annotated[
        str, typer.Argument(metavar="[PROMPT|-]", help="What the text begins with; - reads a prompt from each line.")
    ] = "-",
    max_new_tokens: Annotated[int, typer.Option("--max-new-tokens", min=1, help="Most tokens that are written.")] = 200,
    temperature: Annotated[
        float, typer.Option("--temperature", min=0, help="0: the likeliest each time; 1: as the model thinks.")
    ] = 0.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same text.")] = 0,
    count: Annotated[int, typer.Option("--num", min=1, help="Texts for each prompt, from seed on.")] = 1,
    chat: Annotated[
        bool,
        typer.Option("--chat", help="The prompt is what a user says, of a model tuned on chats: its answer alone."),
    ] = False,
    device: DeviceOption = Device.auto,
    dtype: DtypeOption = Dtype.float32,
    threads: ThreadsOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write on behind a prompt, with a language model."""
    speak(quiet)
    if count > 1 and temperature == 0:
        raise ValueError(f"--num {count}: at temperature 0 all would be the same; raise --temperature")
    if prompt != "-" and os.path.isfile(prompt):
        log.warning("%s: a file has this name; the name itself is the prompt, not what stands in the file", prompt)
    prompts = [prompt] if prompt != "-" else list(lines_of("-"))
    from headway import api

    loaded = api.load_writer(model, device=device, dtype=dtype, threads=threads)
    asked = [one for one in prompts for _ in range(count)]
    options: dict[str, Any] = {"max_new_tokens": max_new_tokens, "temperature": temperature, "seed": seed}
    if chat:
        said = [
            loaded.reply([{"role": "user", "content": one}], **options | {"seed": seed + n})
            for n, one in enumerate(asked)
        ]
    else:
        said = loaded.generate(asked, **options)
    for number, text in enumerate(said):
        if as_json:
            print_json({"prompt": asked[number], "text": text, "seed": seed + number})
        else:
            print(text if chat else asked[number] + text)


@app.command()
def embed(
    model: ModelFolder,
    file: Annotated[str, typer.Argument(metavar="[FILE|-]", help="Texts, one a line.")] = "-",
    out: Annotated[str | None, typer.Option("-o", "--out", help="Write the vectors here, as .npy.")] = None,
    device: DeviceOption = Device.auto,
    dtype: DtypeOption = Dtype.float32,
    threads: ThreadsOption = None,
    quiet: QuietOption = False,
) -> None:
    """A vector for each line of text, as a table of N lines by D numbers (numpy, float32)."""
    speak(quiet)
    if out is None or not out.endswith(".npy"):
        raise ValueError(f"{out or 'nowhere to write to'}: name a file with -o vectors.npy")
    refuse_same([file], out)
    with output(out) as sink:
        lines = list(lines_of(file, out))
        import numpy as np

        from headway import api

        vectors = api.load(model, device=device, dtype=dtype, threads=threads).embed(lines)
        np.save(sink, vectors)
    log.info("wrote %s: %s vectors of %s numbers", out, *(f"{size:,}" for size in vectors.shape))


@app.command()
def label(
    model: ModelFolder,
    file: Annotated[str, typer.Argument(metavar="[FILE|-]", help="Texts, one a line; or questions.")] = "-",
    second: Annotated[
        str | None, typer.Option("--second", help="The second text of each, line by line; or the passages.")
    ] = None,
    out: Annotated[str | None, typer.Option("-o", "--out", help="Write here instead of standard output.")] = None,
    device: DeviceOption = Device.auto,
    dtype: DtypeOption = Dtype.float32,
    threads: ThreadsOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """What a trained encoder says of each line: its label and how likely that is, its number, its tags, or an
    answer."""
    speak(quiet)
    refuse_same([file, *([second] if second else [])], out)
    with output(out) as sink:
        lines = list(lines_of(file, out))
        others = list(lines_of(second, out)) if second else None
        from headway import api

        for found in api.load_reader(model, device=device, dtype=dtype, threads=threads).label(lines, others):
            told = json.dumps(found, ensure_ascii=False) if as_json else label_text(found)
            sink.write(f"{told}\n".encode())


def label_text(found: dict[str, Any]) -> str:
    match found:
        case {"label": label, "labels": shares}:
            return f"{label}\t{shares[label]:.4f}"
        case {"value": value}:
            return f"{value:.4f}"
        case {"tags": tags}:
            return " ".join(tags)
        case _:
            return found["answer"]


@app.command()
def explain(
    model: ModelFolder,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A text, such as one sentence.")],
    target: Annotated[
        str | None, typer.Argument(metavar="[TARGET]", help="Its translation; else the model's own, and its search.")
    ] = None,
    out: Annotated[str | None, typer.Option("-o", "--out", help="Write the page here, as .html.")] = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    stop: StopOption = None,
    tags: TagOption = None,
    device: DeviceOption = Device.auto,
    threads: ThreadsOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """A page of what the model does with one text: where each head looks, how sure it is, what its search tries."""
    speak(quiet)
    if out is None and not as_json:
        raise ValueError("nowhere to write to: name a page with -o page.html, or take --json")
    if out is not None and not out.endswith(".html"):
        raise ValueError(f"{out}: name it .html for a page; --json gives the data")
    refuse_same([model], out)
    for text in (source, target):
        if text and os.path.isfile(text):
            log.warning("%s: a file has this name; what is explained is the name itself, not what stands in it", text)
    with output(out) as sink:
        from headway import api
        from headway.evaluate.explain import page

        loaded = api.load_pair(model, device=device, threads=threads)
        search: dict[str, Any] = {"beam": beam, "length_penalty": length_penalty, "stop": stop}
        found = api.explain(loaded, source, target, tags=tags or [], **search)
        if out is not None:
            sink.write(page(found).encode())
    if out is not None:
        log.info("%s\n%s\nwrote %s; open it in a browser", found.source, found.target, out)
    if as_json:
        print_json(asdict(found))


@app.command()
def show(
    what: Annotated[str, typer.Argument(metavar="MODEL|PRESET|RECIPE", help="A folder, a named size, or a recipe.")],
    vocab_size: Annotated[
        int | None, typer.Option("--vocab-size", min=5, help="For a preset: another vocabulary than its own.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Parameters by part, FLOPs and cache bytes per token, of a recipe the FLOPs of its training; needs no weights."""
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
    from headway.training import this_command

    count = api.average(runs, out, last=last, force=force)
    log.info("averaged %d sets of weights into %s", count, out)
    log.info("next: %s translate %s -", this_command(), quote(out))


ReportOption = Annotated[
    str | None, typer.Option("--out", "-o", help="Write it here, as .html or .json, instead of showing it.")
]


def show_report(out: str | None, title: str, make: Callable[[], Any], as_json: bool = False) -> None:
    """Write the sections that `make` gives into a file, or show them."""
    with reported(None if out == "-" else out, title) as keep:
        from headway.evaluate.report import terminal, to_json

        sections = make()
        keep(sections)
        if as_json:
            print(to_json(title, sections))
        elif out in (None, "-"):
            from rich.console import Console

            terminal(sections, Console())


@app.command("report")
def run_report(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run folders, finished or not.")],
    out: ReportOption = None,
    quiet: QuietOption = False,
) -> None:
    """Draw runs over each other: loss, BLEU, learning rate, throughput, padding, gradient norm; what they said of the
    same lines over time; a table of them."""
    speak(quiet)
    from headway import api

    show_report(out, "Runs", lambda: api.run_report(runs))


@app.command()
def compare(
    what: Annotated[list[str], typer.Argument(metavar="RUN|OUTPUT...", help="Run folders, or files of translations.")],
    reference: Annotated[
        str | None, typer.Option("--reference", help="Score translations against this file, line by line.")
    ] = None,
    source: Annotated[str | None, typer.Option("--source", help="What was translated, to be shown.")] = None,
    target_language: Annotated[
        str | None, typer.Option("--target-language", help="Of translations; else by the reference's ending.")
    ] = None,
    out: ReportOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Runs in a table; or translations of the same lines: BLEU, chrF, TER, and whether the first one's scores differ by
    more than chance (paired bootstrap), and the lines where they differ most."""
    speak(quiet)
    refuse_same([*what, *(path for path in (reference, source) if path)], out)
    from headway import api

    options = {"reference": reference, "source": source, "target_language": target_language}
    show_report(out, "Comparison", lambda: api.compare(what, **options), as_json)


PlaceholdersOption = Annotated[
    int, typer.Option("--placeholders", min=0, help="Pieces <x0>, <x1> ... that no text gives, for codes to be copied.")
]
SeparatorOption = Annotated[bool, typer.Option("--separator", help="A piece <sep> that no text gives.")]
MatchOption = Annotated[bool, typer.Option("--match", help="A piece <match> that no text gives.")]
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
    match: MatchOption = False,
    tags: TagsOption = None,
) -> None:
    """Train one vocabulary on text files."""
    speak(quiet=False)
    from headway.data.corpus import read_lines
    from headway.text.tokenizer import Tokenizer

    table = {"vocab_size": vocab_size, "normalise": normalise.value, "placeholders": placeholders}
    config = tokenizer_config(kind.value, {**table, "separator": separator, "match": match, "tags": tags or []})
    with output(out) as sink:  # a bad path is said before the work, not after it
        texts = [line for file in files for line in read_lines(file)]
        trained = Tokenizer.train(texts, config)
        sink.write(trained.to_json().encode())
    log.info("wrote %s: %d pieces from %d lines", out, trained.vocab_size, len(texts))
    log.info("%s", vocabulary_text(trained, texts))


def tokenizer_config(kind: str, table: dict[str, Any]) -> Any:
    """A recipe's [tokenizer] from options. Raises ValueError with every fault."""
    from headway.check import check_tokenizer
    from headway.config import TokenizerConfig
    from headway.strict import ConfigError, kinds, validate, variants

    [found] = [cls for cls in variants(TokenizerConfig) if kind in kinds(cls)]
    config, faults = validate(found, table, ("tokenizer",))
    if config is None or (faults := list(check_tokenizer(config))):  # pyright: ignore
        raise ConfigError(faults, "the call")
    return config


CHUNK = 10_000
"""Lines encoded at a time."""


def vocabulary_text(tokenizer: Any, texts: list[str]) -> str:
    """How well a vocabulary fits texts, for a person."""
    from headway.text.tokenizer import UNK

    counts: Counter[int] = Counter()
    for start in range(0, len(texts), CHUNK):
        for row in tokenizer.encode_batch(texts[start : start + CHUNK]):
            counts.update(row)
    tokens, words = counts.total(), sum(len(text.split()) for text in texts)
    pieces = range(tokenizer.atom_ids.stop, tokenizer.vocab_size)
    longest = sorted(pieces, key=lambda number: (-len(tokenizer.piece_bytes(number)), number))[:8]
    told = {
        "characters per token": f"{sum(map(len, texts)) / max(1, tokens):.2f}",
        "tokens per word": f"{tokens / max(1, words):.2f}",
        "unknown": f"{100 * counts[UNK] / max(1, tokens):.2f} % of {tokens:,} tokens",
        "pieces in use": f"{len(counts.keys() & set(pieces)):,} of {len(pieces):,}",
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
    match: MatchOption = False,
    tags: TagsOption = None,
) -> None:
    """Make a vocabulary from elsewhere one of ours: control tokens first, then what no text gives, then the pieces."""
    speak(quiet=False)
    from headway.text.tokenizer import Tokenizer

    table = {"path": file, "placeholders": placeholders, "separator": separator, "match": match, "tags": tags or []}
    config = tokenizer_config("file", table)
    with output(out) as sink:
        made = Tokenizer.read(file, config.atoms)
        sink.write(made.to_json().encode())
    kept = "every text comes back" if made.lossless else "not every text comes back as it was"
    log.info("wrote %s: %d pieces; %s", out, made.vocab_size, kept)


def load_tokenizer(path: str) -> Any:
    from headway.text.tokenizer import TOKENIZER, Tokenizer

    if not Path(path).exists():
        raise ValueError(f"{path}: there is no such file. Check the name, and the folder that it is relative to")
    file = Path(path) / TOKENIZER if Path(path).is_dir() else Path(path)
    if not file.exists():
        there = sorted(one.name for one in Path(path).glob(f"*_{TOKENIZER}"))
        remedy = f"Name one of them: {', '.join(there)}" if there else "Name a model folder, or a tokenizer.json"
        raise ValueError(f"{path}: there is no {TOKENIZER} in this folder. {remedy}")
    return Tokenizer.load(file)


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
    out: ReportOption = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change the recipe: path=value, such as data.max_len=100.")
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """What is kept, held out and left out, and why; lengths, pieces and padding; what cleaning would do. Nothing is
    trained but the tokenizer."""
    speak(quiet)
    from headway import api

    show_report(out, f"Data of {recipe}", lambda: api.data_report(recipe, set=overrides(settings or [])))


def main() -> None:
    # How long a thread of torch's spins while it waits for the others, read when torch is imported. Beside another busy
    # process the default of 300,000 turns is several times slower; this costs a few percent on one at rest (LOG.md).
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    app(prog_name="headway")


if __name__ == "__main__":
    main()
