"""The second pass over a recipe: contradictions between values that are fine alone."""

from collections.abc import Iterator

from headway.config import (
    AtomsConfig,
    AttentionConfig,
    DataConfig,
    GRUConfig,
    LayerConfig,
    LayerNormConfig,
    LearnedConfig,
    LinearAttentionConfig,
    LSTMConfig,
    NoamConfig,
    Recipe,
    SearchConfig,
    Seq2SeqConfig,
    StackConfig,
    TrainedTokenizerConfig,
    WindowConfig,
    WordConfig,
    WordPieceConfig,
)
from headway.strict import MISSING, Config, Fault, Where


def check(config: Recipe | Seq2SeqConfig) -> list[Fault]:
    """All contradictions between values that are fine alone."""
    if isinstance(config, Seq2SeqConfig):
        return check_model(config)
    faults = [*check_model(config.model), *check_tokenizer(config.tokenizer), *check_data(config), *check_train(config)]
    separate = config.tokenizer.target_path if config.tokenizer.kind == "file" else not config.tokenizer.shared
    if separate and config.model.tie == "all":
        wrong = 'one table of embeddings for two vocabularies (shared, target_path of the tokenizer); take "output"'
        faults.append(Fault(("model", "tie"), "all", wrong))
    if config.search.n_best != 1:
        wrong = "a recipe's search gives one translation; ask for more with `headway translate --nbest`"
        faults.append(Fault(("search", "n_best"), config.search.n_best, wrong))
    return [*faults, *check_search(config.search.model_copy(update={"n_best": 1}))]


def check_model(model: Seq2SeqConfig) -> list[Fault]:
    faults = []
    for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        if not isinstance(stack, StackConfig):
            continue
        for index, layer in enumerate(stack.layers):
            where = ("model", side, "layers", index)
            faults += _check_heads(model.dim, layer, where, side)
            faults += _check_direction(model.dim, layer.mixer, (*where, "mixer"), side)
            if side == "encoder" and layer.cross is not None:
                faults.append(
                    Fault((*where, "cross"), layer.cross.kind, "an encoder has nothing else to look at; drop it")
                )
            ends = stack.final_norm and index == len(stack.layers) - 1  # its norm is then used after the stack
            if layer.residual == "none" and layer.norm != LayerNormConfig() and not ends:
                wrong = 'not used where residual is "none"; drop it, or take residual "post" or "pre"'
                faults.append(Fault((*where, "norm", "eps"), layer.norm.eps, wrong))
    return faults


def _check_heads(dim: int, layer: LayerConfig, where: Where, side: str) -> Iterator[Fault]:
    for name, part in (("mixer", layer.mixer), ("cross", layer.cross)):
        if part is None or (isinstance(part, AttentionConfig) and part.key_dim and part.value_dim):
            continue
        heads = dict(part).get("num_heads")
        if heads is not None and dim % heads:
            wrong = f"does not divide model.dim = {dim}; take one of {_divisors(dim)}"
            remedy = ", or set key_dim and value_dim" if isinstance(part, AttentionConfig) else ""
            yield Fault((*where, name, "num_heads"), heads, wrong + remedy)
        default = AttentionConfig().num_heads  # what a decoder looks at the source with where its mixer has no heads
        if heads is None and side == "decoder" and layer.cross is None and dim % default:
            wrong = f"missing; its default of {default} heads does not divide model.dim = {dim}; set cross.num_heads"
            yield Fault((*where, "cross"), MISSING, wrong)


def _divisors(dim: int) -> str:
    return ", ".join(str(heads) for heads in range(1, min(dim, 64) + 1) if dim % heads == 0)


def _check_direction(dim: int, mixer: Config, where: Where, side: str) -> Iterator[Fault]:
    match mixer:
        case WindowConfig() | LinearAttentionConfig() if side == "encoder":
            wrong = "looks back only, and an encoder looks both ways; take attention, or a bidirectional lstm or gru"
            yield Fault((*where, "kind"), mixer.kind, wrong)
        case LSTMConfig(bidirectional=False) | GRUConfig(bidirectional=False) if side == "encoder":
            yield Fault((*where, "bidirectional"), False, "an encoder looks both ways; set it to true")
        case LSTMConfig(bidirectional=True) | GRUConfig(bidirectional=True) if side == "decoder":
            yield Fault((*where, "bidirectional"), True, "a decoder may not look ahead; set it to false")
        case LSTMConfig(bidirectional=True) | GRUConfig(bidirectional=True) if dim % 2:
            yield Fault(
                (*where, "bidirectional"), True, f"each direction gets half of model.dim = {dim}; take an even dim"
            )
        case _:
            pass


def check_tokenizer(tokenizer: AtomsConfig) -> Iterator[Fault]:
    names = tokenizer.atoms
    if isinstance(tokenizer, TrainedTokenizerConfig):
        least = (5 if isinstance(tokenizer, WordPieceConfig | WordConfig) else 260) + len(names)
        if tokenizer.vocab_size < least:
            wrong = f"too few with {len(names)} placeholders, separators and tags; take {least} or more"
            yield Fault(("tokenizer", "vocab_size"), tokenizer.vocab_size, wrong)
    for index, tag in enumerate(tokenizer.tags):
        where = ("tokenizer", "tags", index)
        if any(letter.isspace() or letter in "<>" for letter in tag):
            yield Fault(where, tag, "needs no space and none of < >; the piece is written with them around it")
        elif f"<{tag}>" in ("<pad>", "<s>", "</s>", "<unk>"):
            yield Fault(where, tag, f"<{tag}> is a control token; take another name")
        elif names.count(f"<{tag}>") > 1:
            yield Fault(where, tag, f"there are several <{tag}>, placeholders, <sep> and <match> counted; drop one")


def check_data(recipe: Recipe) -> list[Fault]:
    data, position = recipe.data, recipe.model.position
    faults = [*_check_corpora(data, recipe.tokenizer), *_check_valid(data)]
    if isinstance(position, LearnedConfig) and position.max_len <= data.max_len:
        wrong = f"too few for data.max_len = {data.max_len} tokens and the end token; take {data.max_len + 1} or more"
        faults.append(Fault(("model", "position", "max_len"), position.max_len, wrong))
    return faults


def _check_corpora(data: DataConfig, tokenizer: AtomsConfig) -> Iterator[Fault]:
    for side in ("source", "target"):
        value = getattr(data, side)
        if value is None and not data.corpora:
            yield Fault(("data", side), MISSING, "missing; name two plain files, or write [[data.corpora]]")
        if value is not None and data.corpora:
            yield Fault(("data", side), value, "stands for one corpus; give it as an entry of data.corpora instead")
    for index, corpus in enumerate(data.corpora):
        where = ("data", "corpora", index)
        named = [name for name in ("path", "source", "target") if getattr(corpus, name) is not None]
        if named not in (["path"], ["source", "target"]):
            yield Fault(where, ", ".join(named) or "{}", "needs either path, or source and target")
        if data.temperature is not None and corpus.weight != 1:
            wrong = f"data.temperature = {data.temperature:g} sets the weights; drop one of the two"
            yield Fault((*where, "weight"), corpus.weight, wrong)
    if data.test and data.clean.overlap == "none":
        yield Fault(("data", "test"), data.test, "not used without data.clean.overlap; set that, or drop it")
    if data.sprinkle and not tokenizer.placeholders and tokenizer.kind != "file":
        wrong = "puts codes into pairs, and the vocabulary has nothing to stand for them; set tokenizer.placeholders"
        yield Fault(("data", "sprinkle"), data.sprinkle, wrong)
    if data.context and not tokenizer.separator and tokenizer.kind != "file":
        wrong = "needs a piece to stand between sentences; set tokenizer.separator = true"
        yield Fault(("data", "context"), data.context, wrong)
    if data.matches and not tokenizer.match and tokenizer.kind != "file":
        wrong = "needs a piece to stand between a match and a source; set tokenizer.match = true"
        yield Fault(("data", "matches"), data.matches, wrong)
    if data.temperature is not None and len(data.corpora) < 2:
        yield Fault(("data", "temperature"), data.temperature, "weighs corpora, and there are not several; drop it")


def _check_valid(data: DataConfig) -> Iterator[Fault]:
    for one, other in (("valid_source", "valid_target"), ("valid_target", "valid_source")):
        value = getattr(data, one)
        if value is not None and getattr(data, other) is None:
            yield Fault(("data", one), value, f"needs data.{other} with it")
        if value is not None and data.valid is not None:
            yield Fault(("data", one), value, "data.valid names what to validate on as well; drop one of the two")
    if data.valid is None and data.valid_source is None and data.valid_target is None:
        if data.valid_tags is not None:
            wrong = "not used where pairs are held out: they keep the tags of their corpus; drop it"
            yield Fault(("data", "valid_tags"), data.valid_tags, wrong)
        return
    for name in ("holdout_share", "holdout_most"):
        if getattr(data, name) != DataConfig.model_fields[name].default:
            wrong = "not used where validation files are named; drop it, or drop valid_source and valid_target"
            yield Fault(("data", name), getattr(data, name), wrong)
    if data.valid_tags is None and len({corpus.tags for corpus in data.corpora}) > 1:
        yield Fault(
            ("data", "valid_tags"), MISSING, "missing; the corpora have different tags: say which to validate with"
        )


def check_train(recipe: Recipe) -> list[Fault]:
    train, faults = recipe.train, []
    warmup = train.schedule.warmup
    if warmup >= train.steps:
        wrong = f"needs to be less than train.steps = {train.steps}, or a share of it between 0 and 1"
        faults.append(Fault(("train", "schedule", "warmup"), warmup, wrong))
    if isinstance(train.schedule, NoamConfig) and train.schedule.dim != recipe.model.dim:
        wrong = f"needs to be model.dim = {recipe.model.dim}; scale the rate by factor"
        faults.append(Fault(("train", "schedule", "dim"), train.schedule.dim, wrong))
    if train.average is not None and train.average.kind == "last" and train.average.num > train.keep:
        wrong = f"more than train.keep = {train.keep} checkpoints are kept; raise keep or lower num"
        faults.append(Fault(("train", "average", "num"), train.average.num, wrong))
    if train.lora is not None and train.lora.rank >= recipe.model.dim:
        wrong = f"needs to be less than model.dim = {recipe.model.dim}, or nothing is saved; 4 to 32 are usual"
        faults.append(Fault(("train", "lora", "rank"), train.lora.rank, wrong))
    return faults


def check_search(search: SearchConfig) -> list[Fault]:
    faults = []
    if search.n_best > search.beam:
        wrong = f"needs to be search.beam = {search.beam} or less; widen the beam"
        faults.append(Fault(("search", "n_best"), search.n_best, wrong))
    if search.max_ratio == 0 and search.max_extra == 0:
        faults.append(Fault(("search", "max_extra"), 0, "with max_ratio = 0 nothing may be written; raise one of them"))
    return faults
