"""What a Headway run is made of, as frozen, strict, nested configs tagged by `kind`. No torch, no files. The model's
are in `headway.architecture`.

Two passes: `headway.strict.validate` finds every fault of shape (unknown key, wrong type, value out of range), and
`headway.check` every contradiction between values that are fine alone. `headway.recipe` reads and writes these configs
as TOML, and `headway.build` turns them into modules. Defaults are written here and nowhere else.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator

from headway.architecture import OFF, AnyModelConfig, Count, Positive, Ratio, Share, Size, Text
from headway.strict import Config
from headway.strict import ConfigError as ConfigError

Exponent = Annotated[float, Field(ge=0, le=10)]
Percent = Annotated[int, Field(ge=1, le=100)]


def language_fault(tag: str) -> str | None:
    """What is wrong with a name of a language, or None: a tag of BCP 47 has 2 or 3 letters, then
    subtags; `_` between them, as in names of locales, is read too."""
    if re.fullmatch(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*", tag):
        return None
    return 'needs a language tag, 2 or 3 letters and then subtags: "en", "de", "pt-BR"'


def language_named(file: str) -> str | None:
    """That of a file's ending, of two letters: `a.de`, `a.de.gz`."""
    ending = file.removesuffix(".gz").rpartition(".")[2]
    return ending.lower() if len(ending) == 2 and ending.isalpha() else None


def _language(value: str) -> str:
    if fault := language_fault(value):
        raise ValueError(fault)
    return value


Language = Annotated[str, AfterValidator(_language)]


def _warmup(value: object) -> int | float:
    """A plain function, because pydantic's union of int and float would report every fault twice."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if isinstance(value, float) and 0 < value < 1:
        return value
    raise ValueError("needs a whole number of steps, or a share of train.steps between 0 and 1")


Warmup = Annotated[int | float, PlainValidator(_warmup)]


# ---- text and data ----


class LanguagesConfig(Config):
    """What is known of the two sides of a model folder."""

    source: Text | None = None
    target: Text | None = None


class AlignmentConfig(Config):
    """Whose weights say which source token a target token came from (`headway.generate.align`)."""

    layer: Text
    head: Annotated[int, Field(ge=-1)] = -1  # -1: the mean over all


class InputConfig(Config):
    """What a model was trained to read: a source, and what stands before it (`headway.text.context`)."""

    max_len: Size = 512  # tokens of all; the default is for what does not say
    context: Count = 0  # sentences before the source: data.context
    matches: Percent | None = None  # least score of a match before it: data.matches


SOURCE_ALONE = InputConfig()


class AtomsConfig(Config):
    """Pieces that no text gives and that are never cut."""

    kind: Any
    placeholders: Annotated[int, Field(ge=0, le=1000)] = (
        0  # <x0>, <x1> ...: what stands for codes of a text, to be copied
    )
    separator: bool = False  # <sep>, between a sentence and its context
    match: bool = False  # <match>, between the translation of a similar source and a source
    tags: Annotated[tuple[Text, ...], Field(strict=False)] = ()  # "2de" is the piece <2de>, put before a source

    @property
    def atoms(self) -> tuple[str, ...]:
        """Their names, in the order of their ids."""
        names = [
            *(f"x{number}" for number in range(self.placeholders)),
            *["sep"] * self.separator,
            *["match"] * self.match,
        ]
        names += self.tags
        return tuple(f"<{name}>" for name in names)


class TrainedTokenizerConfig(AtomsConfig):
    vocab_size: Annotated[int, Field(ge=260)]  # 256 bytes and four control tokens
    normalise: Literal["none", "NFC", "NFKC"] = "none"
    shared: bool = True  # False: each side has a vocabulary of its own, of this size


class BPEConfig(TrainedTokenizerConfig):
    kind: Literal["bpe"] = "bpe"
    dropout: Share = 0.0  # BPE-dropout, in training only


class CharBPEConfig(TrainedTokenizerConfig):
    kind: Literal["char_bpe"] = "char_bpe"
    dropout: Share = 0.0


class UnigramConfig(TrainedTokenizerConfig):
    kind: Literal["unigram"] = "unigram"
    alpha: Annotated[Positive | None, OFF] = None  # pieces are sampled in training, flatter the nearer to 0; None: not


class WordPieceConfig(TrainedTokenizerConfig):
    kind: Literal["wordpiece"] = "wordpiece"
    vocab_size: Annotated[int, Field(ge=5)]


class WordConfig(TrainedTokenizerConfig):
    kind: Literal["word"] = "word"
    vocab_size: Annotated[int, Field(ge=5)]


class FileTokenizerConfig(AtomsConfig):
    """A tokenizer.json of ours, or a file made elsewhere (SentencePiece, tokenizers, tensor2tensor, GPT-2's ranks)."""

    kind: Literal["file"] = "file"
    path: Text
    target_path: Text | None = None  # None: that of `path` is for both sides


TokenizerConfig = Annotated[
    BPEConfig | CharBPEConfig | UnigramConfig | WordPieceConfig | WordConfig | FileTokenizerConfig,
    Field(discriminator="kind"),
]


def _column(value: object) -> int | str:
    if (isinstance(value, int) and not isinstance(value, bool) and value > 0) or (isinstance(value, str) and value):
        return value
    raise ValueError("needs the name of a column, or its number from 1")


Column = Annotated[int | str, PlainValidator(_column)]
Names = Annotated[tuple[Text, ...], Field(strict=False)]


class CorpusConfig(Config):
    """One of several corpora: `path`, a file that holds both sides (or a folder or glob of such), or two files (or two
    globs) line by line."""

    path: Text | None = None
    source: Text | None = None
    target: Text | None = None
    kind: Literal["auto", "text", "tsv", "csv", "jsonl", "parquet", "mo", "po", "tmx", "xliff", "srt", "vtt"] = "auto"
    source_column: Column | None = None  # of tsv, csv, jsonl, parquet; None: 1 and 2, or "source" and "target"
    target_column: Column | None = None
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None  # of csv; None: a comma
    pieces: bool = False  # SentencePiece pieces with spaces between them, to be joined again
    weight: Positive = 1.0  # how often each pair is seen in an epoch
    tags: Names = ()  # atoms of the tokenizer to put before each source
    source_language: Language | None = None  # None: that of [data]
    target_language: Language | None = None


class CleanConfig(Config):
    """What training leaves out, besides pairs with an empty side; `headway.data.clean` says what each rule means."""

    min_chars: Annotated[Size | None, OFF] = None
    max_chars: Annotated[Size | None, OFF] = None
    max_ratio: Annotated[Annotated[float, Field(gt=1)] | None, OFF] = None
    identical: bool = False
    markup: bool = False
    mojibake: bool = False
    letters: Annotated[Annotated[float, Field(gt=0, le=1)] | None, OFF] = None  # least share of the languages' letters
    language: bool = False
    overlap: Literal["source", "pair", "none"] = "none"  # with what is validated or tested on
    duplicates: Literal["pair", "source", "target", "none"] = "none"


class DataConfig(Config):
    source: Text | None = None  # two plain files are the short form of one corpus
    target: Text | None = None
    corpora: Annotated[tuple[CorpusConfig, ...], Field(strict=False)] = ()
    text: Text | None = None  # in place of pairs: a plain file of texts, for objectives that read such
    second: Text | None = None  # beside it, line by line: a second text
    labels: Text | None = None  # and what is to be said of each
    valid_text: Text | None = None
    valid_second: Text | None = None
    valid_labels: Text | None = None
    temperature: Annotated[float, Field(ge=1)] | None = None  # in place of weights: (pairs / most pairs)^(1/T - 1)
    valid: Text | None = None  # a file of both sides to validate on; or two plain ones:
    valid_source: Text | None = None
    valid_target: Text | None = None
    valid_tags: Names | None = None  # None: those of the corpora, where all have the same
    test: Names = ()  # files whose texts data.clean.overlap keeps out of training, besides those to validate on
    holdout_share: Annotated[float, Field(gt=0, lt=1)] = 0.05  # held out for validation where no files are named for it
    holdout_most: Size = 2000
    source_language: Language | None = None
    target_language: Language | None = None
    max_len: Size = 256
    context: Count = 0  # sentences before a source that are read with it, as far as max_len goes
    matches: Annotated[Percent | None, OFF] = None  # from this score on, a similar pair's translation is read as well
    sprinkle: Share = 0.0  # of the pairs without codes get some, so that a model learns to copy its placeholders
    clean: CleanConfig = CleanConfig()
    store: Text | None = None  # a folder for the encoded data; None: in the run's


# ---- objectives: what is learnt from the data ----


class TranslateConfig(Config):
    """The target from the source: what a pair is for."""

    kind: Literal["translate"] = "translate"


class CausalConfig(Config):
    """The next token. blocks: all lines as one stream, line breaks among its text, in rows of data.max_len tokens;
    lines: each line is a text, those that are short together in a row, where none sees another."""

    kind: Literal["causal"] = "causal"
    rows: Literal["blocks", "lines"] = "blocks"


class PrefixConfig(Config):
    """The rest of each line from its beginning, which sees itself both ways, split at random (Liu et al. 2018)."""

    kind: Literal["prefix"] = "prefix"


class MaskedConfig(Config):
    """Words that were masked, from both sides (Devlin et al. 2019). next_sentence: of two lines, and whether the second
    follows the first: data.text then has a sentence a line, and empty lines between its documents."""

    kind: Literal["masked"] = "masked"
    share: Annotated[float, Field(gt=0, le=1)] = 0.15
    whole_words: bool = False
    next_sentence: bool = False


class PermutedConfig(Config):
    """Words in a random order of turns, each from those before its turn, wherever they stand (Yang et al. 2019); of
    each line the last one in `one_in` turns is asked."""

    kind: Literal["permuted"] = "permuted"
    one_in: Size = 6


class SpansConfig(Config):
    """Spans that were dropped, each from the sentinel in its place (Raffel et al. 2020); rows as blocks of causal."""

    kind: Literal["spans"] = "spans"
    share: Annotated[float, Field(gt=0, lt=1)] = 0.15
    mean: Annotated[float, Field(ge=1)] = 3.0


class BothWaysObjectiveConfig(Config):
    """The token behind each and the one before each, of a model that reads each line both ways (Peters et al. 2018)."""

    kind: Literal["both_ways"] = "both_ways"


class UL2Config(Config):
    """A mixture of what can be dropped, short spans, long ones and the end, each with its mode's token before the
    source (Tay et al. 2022); rows as blocks of causal."""

    kind: Literal["ul2"] = "ul2"


class ChatObjectiveConfig(Config):
    """What the assistant says, in chats: data.text has one a line, {"messages": [{"role": ..., "content": ...}]}.
    chat: how they are written down (`headway.text.chat`)."""

    kind: Literal["chat"] = "chat"
    chat: Literal["chatml", "inst", "plain"] = "chatml"


class AnswersConfig(Config):
    """Where in a passage a question's answer stands (Devlin et al. 2019): questions in data.text, passages in
    data.second, answers in data.labels, as the passage has them; an empty line where it has none. One that stands there
    more than once has its first character's number before it: `17:answer`. stride: tokens between the beginnings
    of windows, for a passage that is too long for one; None: half of the room beside the question."""

    kind: Literal["answers"] = "answers"
    stride: Annotated[Size | None, OFF] = None


class ClassesObjectiveConfig(Config):
    """The label of each text, or pair of texts: a name in each line of data.labels."""

    kind: Literal["classes"] = "classes"
    names: Names  # in the order of the model's classes


class NumberObjectiveConfig(Config):
    """A number for each text, or pair of texts: one in each line of data.labels."""

    kind: Literal["number"] = "number"


class TagsObjectiveConfig(Config):
    """The tag of each word: words and tags with spaces between them, as many in a line of data.labels as of
    data.text."""

    kind: Literal["tags"] = "tags"
    names: Names


class ContrastObjectiveConfig(Config):
    """Vectors near each other for a text and that in the same line of data.second, or (none given) for a text and
    itself, read twice under dropout (Gao et al. 2021)."""

    kind: Literal["contrast"] = "contrast"


ObjectiveConfig = Annotated[
    TranslateConfig
    | CausalConfig
    | PrefixConfig
    | MaskedConfig
    | PermutedConfig
    | SpansConfig
    | BothWaysObjectiveConfig
    | UL2Config
    | ChatObjectiveConfig
    | AnswersConfig
    | ClassesObjectiveConfig
    | NumberObjectiveConfig
    | TagsObjectiveConfig
    | ContrastObjectiveConfig,
    Field(discriminator="kind"),
]


# ---- training ----


class AdamConfig(Config):
    kind: Literal["adam"] = "adam"
    betas: Annotated[tuple[Share, Share], Field(strict=False)] = (0.9, 0.98)
    eps: Positive = 1e-9


class NoamConfig(Config):
    kind: Literal["noam"] = "noam"
    dim: Size
    warmup: Warmup
    factor: Positive = 1.0


class InverseSqrtConfig(Config):
    kind: Literal["inverse_sqrt"] = "inverse_sqrt"
    peak: Positive
    warmup: Warmup


ScheduleConfig = Annotated[NoamConfig | InverseSqrtConfig, Field(discriminator="kind")]


class UniformSmoothingConfig(Config):
    """Epsilon is spread over the whole vocabulary (torch)."""

    kind: Literal["uniform"] = "uniform"
    epsilon: Share = 0.1


class OthersSmoothingConfig(Config):
    """Epsilon is spread over the wrong tokens only (fairseq)."""

    kind: Literal["others"] = "others"
    epsilon: Share = 0.1


SmoothingConfig = Annotated[UniformSmoothingConfig | OthersSmoothingConfig, Field(discriminator="kind")]


class AverageConfig(Config):
    kind: Literal["last", "best"]
    num: Size


class LoRAConfig(Config):
    """What learns in place of the weights of a model that training starts from (`headway.train.lora`)."""

    rank: Size = 8
    alpha: Positive = 16.0  # the thin matrices count alpha / rank
    dropout: Share = 0.0  # of what they read


class TrainConfig(Config):
    steps: Size
    batch_tokens: Size = 4096  # padded source and target tokens of one forward
    accumulate: Size = 1
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    optimizer: AdamConfig = AdamConfig()
    schedule: ScheduleConfig
    smoothing: SmoothingConfig = UniformSmoothingConfig()
    clip: Annotated[Positive | None, OFF] = 1.0  # of the gradient's norm; None: no clipping
    dtype: Literal["float32", "bfloat16"] = "float32"
    validate_every: Size = 500
    save_every: Size = 500
    keep: Size = 5
    patience: Annotated[Size | None, OFF] = None  # validations without a better loss before stopping; None: never
    average: Annotated[AverageConfig | None, OFF] = None  # None: the last weights as they are
    lora: Annotated[LoRAConfig | None, OFF] = None  # None: all weights learn


# ---- search ----


class GNMTConfig(Config):
    kind: Literal["gnmt"] = "gnmt"
    alpha: Exponent = 0.6


class PowerConfig(Config):
    kind: Literal["power"] = "power"
    alpha: Exponent


PenaltyConfig = Annotated[GNMTConfig | PowerConfig, Field(discriminator="kind")]


class SearchConfig(Config):
    beam: Size = 4
    penalty: PenaltyConfig = GNMTConfig()
    stop: Literal["first", "exact"] = "first"
    max_ratio: Ratio = 1.0  # the output may have max_ratio * source tokens + max_extra
    max_extra: Count = 50
    n_best: Size = 1


class Recipe(Config):
    model: AnyModelConfig
    tokenizer: TokenizerConfig
    data: DataConfig
    objective: ObjectiveConfig = TranslateConfig()
    train: TrainConfig
    search: SearchConfig = SearchConfig()
