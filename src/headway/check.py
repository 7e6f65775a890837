"""The second pass over a recipe: contradictions between values that are fine alone."""

from collections.abc import Iterator

from headway.architecture import (
    ALiBiConfig,
    AttentionConfig,
    BucketsConfig,
    ClassesConfig,
    ElmanConfig,
    EncoderConfig,
    ExpertsConfig,
    GRUConfig,
    HeadsConfig,
    LatentConfig,
    LayerConfig,
    LayerNormConfig,
    LearnedConfig,
    LinearAttentionConfig,
    Llama3ScalingConfig,
    LMConfig,
    LSTMConfig,
    RotaryConfig,
    Seq2SeqConfig,
    StackConfig,
    TagsConfig,
    ToeplitzConfig,
    TUPEConfig,
    WordsConfig,
)
from headway.config import (
    AtomsConfig,
    CausalConfig,
    ChatObjectiveConfig,
    DataConfig,
    MaskedConfig,
    NoamConfig,
    ObjectiveConfig,
    Recipe,
    SearchConfig,
    TrainedTokenizerConfig,
    WordConfig,
    WordPieceConfig,
)
from headway.strict import MISSING, Config, Fault, Where


def check(config: Recipe | Seq2SeqConfig | LMConfig | EncoderConfig) -> list[Fault]:
    """All contradictions between values that are fine alone."""
    if not isinstance(config, Recipe):
        return check_model(config)
    faults = [*check_model(config.model), *check_tokenizer(config.tokenizer), *check_data(config), *check_train(config)]
    faults += check_objective(config)
    if not isinstance(config.model, Seq2SeqConfig):
        return faults
    separate = config.tokenizer.target_path if config.tokenizer.kind == "file" else not config.tokenizer.shared
    if separate and config.model.tie in ("all", "source"):
        wrong = 'one table of embeddings for two vocabularies (shared, target_path of the tokenizer); take "output"'
        faults.append(Fault(("model", "tie"), config.model.tie, wrong))
    if config.search.n_best != 1:
        wrong = "a recipe's search gives one translation; ask for more with `headway translate --nbest`"
        faults.append(Fault(("search", "n_best"), config.search.n_best, wrong))
    return [*faults, *check_search(config.search.model_copy(update={"n_best": 1}))]


Shape = Seq2SeqConfig | LMConfig | EncoderConfig


def check_model(model: Shape) -> list[Fault]:
    faults = []
    for side, stack in stacks(model):
        for index, layer in enumerate(stack.layers):
            where = ("model", side, "layers", index)
            faults += _check_heads(model.dim, layer, where, side)
            faults += _check_position(model, layer.mixer, (*where, "mixer"), side)
            faults += _check_direction(model, layer.mixer, (*where, "mixer"), side)
            faults += _check_experts(layer.ffn, (*where, "ffn"))
            if side != "decoder" and layer.cross is not None:
                wrong = f"{'an encoder' if side == 'encoder' else 'this model'} has nothing else to look at; drop it"
                faults.append(Fault((*where, "cross"), layer.cross.kind, wrong))
            if layer.cross is not None and layer.cross.position is not None:
                wrong = "places of two texts have no distance between them; drop it"
                faults.append(Fault((*where, "cross", "position"), layer.cross.position.kind, wrong))
            ends = stack.final_norm and index == len(stack.layers) - 1  # its norm is then used after the stack
            if isinstance(model, EncoderConfig) and model.two_streams and layer.mixer.kind != "attention":
                wrong = "cannot read and guess in an order of turns (model.two_streams); take attention"
                faults.append(Fault((*where, "mixer", "kind"), layer.mixer.kind, wrong))
            if layer.residual == "none" and layer.norm != LayerNormConfig() and not ends:
                wrong = 'not used where residual is "none"; drop it, or take residual "post" or "pre"'
                faults.append(Fault((*where, "norm", "eps"), layer.norm.eps, wrong))
    return [*faults, *_check_output(model)]


def stacks(model: Shape) -> list[tuple[str, StackConfig]]:
    """The stacks of layers of a model, by their names in the TOML."""
    names = ("encoder", "decoder") if isinstance(model, Seq2SeqConfig) else ("stack",)
    return [(name, stack) for name in names if isinstance(stack := getattr(model, name), StackConfig)]


def _check_heads(dim: int, layer: LayerConfig, where: Where, side: str) -> Iterator[Fault]:
    for name, part in (("mixer", layer.mixer), ("cross", layer.cross)):
        if part is None:
            continue
        heads = dict(part).get("num_heads")
        told = isinstance(part, HeadsConfig) and part.key_dim and part.value_dim
        told = told or (isinstance(part, LatentConfig) and part.head_dim and part.value_dim)
        if heads is not None and dim % heads and not told:
            wrong = f"does not divide model.dim = {dim}; take one of {_divisors(dim)}"
            remedy = ", or set key_dim and value_dim" if isinstance(part, AttentionConfig) else ""
            yield Fault((*where, name, "num_heads"), heads, wrong + remedy)
        elif isinstance(part, HeadsConfig):
            yield from _check_widths(part, dim // part.num_heads, (*where, name))
        elif isinstance(part, LatentConfig) and part.rope_dim % 2:
            yield Fault((*where, name, "rope_dim"), part.rope_dim, "coordinates turn in pairs; take an even number")
        default = AttentionConfig().num_heads  # what a decoder looks at the source with where its mixer has no heads
        if heads is None and side == "decoder" and layer.cross is None and dim % default:
            wrong = f"missing; its default of {default} heads does not divide model.dim = {dim}; set cross.num_heads"
            yield Fault((*where, "cross"), MISSING, wrong)


def _check_widths(part: HeadsConfig, head_dim: int, where: Where) -> Iterator[Fault]:
    """Of heads, groups of heads, and what stands on their width."""
    groups = part.num_kv_heads
    if groups is not None and part.num_heads % groups:
        wrong = f"does not divide num_heads = {part.num_heads}; take one of {_divisors(part.num_heads)}"
        yield Fault((*where, "num_kv_heads"), groups, wrong)
    listed = [name for name in ("key_dim", "value_dim") if isinstance(getattr(part, name), tuple)]
    for name in listed:
        widths = getattr(part, name)
        if len(widths) != part.num_heads:
            wrong = f"has {len(widths)} widths, and num_heads = {part.num_heads}; give one for each head"
            yield Fault((*where, name), list(widths), wrong)
    if listed:
        for name, value in (("num_kv_heads", groups), ("qk_norm", part.qk_norm), ("position", part.position)):
            plain = name == "position" and isinstance(value, ALiBiConfig | BucketsConfig | ToeplitzConfig)
            if value is not None and value != part.num_heads and not plain:
                wrong = "needs heads of one width; give a single key_dim and value_dim, or drop it"
                yield Fault((*where, name), value if isinstance(value, int) else value.kind, wrong)
        return
    key_dim = part.key_dim or head_dim
    if isinstance(part.position, RotaryConfig) and isinstance(key_dim, int):
        yield from _check_rotary(part.position, key_dim, (*where, "position"))


def _check_rotary(position: RotaryConfig, key_dim: int, where: Where) -> Iterator[Fault]:
    turned = int(round(position.share * key_dim, 6))  # 0.29 * 100 is 28.999...
    if position.share == 1 and key_dim % 2:
        yield Fault(where, "rotary", f"turns pairs, and key_dim = {key_dim} is odd; take an even one")
    elif turned < 2 or turned % 2:
        wrong = f"of key_dim = {key_dim} are {turned} coordinates, which turn in pairs; take an even number, 2 or more"
        yield Fault((*where, "share"), position.share, wrong)
    scaling = position.scaling
    if isinstance(scaling, Llama3ScalingConfig) and scaling.high <= scaling.low:
        wrong = f"needs to be above low = {scaling.low:g}; Llama 3.1 has 4 and 1"
        yield Fault((*where, "scaling", "high"), scaling.high, wrong)


def _check_position(model: Shape, part: Config, where: Where, side: str) -> Iterator[Fault]:
    """Of buckets, and of TUPE, which has them too."""
    if not isinstance(part, HeadsConfig):
        return
    position = part.position
    both = side == "encoder" or isinstance(model, EncoderConfig) or (isinstance(model, LMConfig) and model.prefix)
    if isinstance(position, TUPEConfig) and part.key_dim and part.value_dim and model.dim % part.num_heads:
        wrong = f"does not divide model.dim = {model.dim}, as tupe needs; take one of {_divisors(model.dim)}"
        yield Fault((*where, "num_heads"), part.num_heads, wrong)
    if not isinstance(position, BucketsConfig | TUPEConfig):
        return
    near = position.num_buckets // (4 if both else 2)
    if both and position.num_buckets % 2:
        wrong = "half of the buckets are for what lies ahead; take an even number"
        yield Fault((*where, "position", "num_buckets"), position.num_buckets, wrong)
    elif position.max_distance <= near:
        wrong = f"the {near} nearest distances have buckets of their own; take more than {near} (T5: 128)"
        yield Fault((*where, "position", "max_distance"), position.max_distance, wrong)


def _divisors(dim: int) -> str:
    return ", ".join(str(heads) for heads in range(1, min(dim, 64) + 1) if dim % heads == 0)


def _check_direction(model: Shape, mixer: Config, where: Where, side: str) -> Iterator[Fault]:
    ahead = side == "encoder" or isinstance(model, EncoderConfig)
    recurrent = isinstance(mixer, ElmanConfig | LSTMConfig | GRUConfig)
    if recurrent and mixer.bidirectional and not ahead:
        yield Fault((*where, "bidirectional"), True, "a decoder may not look ahead; set it to false")
    elif recurrent and ahead and mixer.bidirectional is not False and model.dim % 2:
        wrong = f"each direction gets half of model.dim = {model.dim}; take an even dim, or one direction (false)"
        yield Fault((*where, "bidirectional"), True, wrong)
    elif (recurrent or isinstance(mixer, LinearAttentionConfig)) and isinstance(model, LMConfig) and model.prefix:
        wrong = "cannot let a prefix see itself both ways (model.prefix); take attention, or drop model.prefix"
        yield Fault((*where, "kind"), mixer.kind, wrong)


def _check_experts(ffn: Config, where: Where) -> Iterator[Fault]:
    if not isinstance(ffn, ExpertsConfig):
        return
    if ffn.top_k > ffn.num:
        yield Fault((*where, "top_k"), ffn.top_k, f"there are num = {ffn.num} experts; take {ffn.num} or less")
    if ffn.num % ffn.num_groups:
        yield Fault((*where, "num_groups"), ffn.num_groups, f"does not divide num = {ffn.num}; take a divisor of it")
    elif ffn.top_groups > ffn.num_groups:
        wrong = f"there are num_groups = {ffn.num_groups}; take {ffn.num_groups} or less"
        yield Fault((*where, "top_groups"), ffn.top_groups, wrong)
    elif ffn.top_k > ffn.num // ffn.num_groups * ffn.top_groups and ffn.top_k <= ffn.num:
        wrong = (
            f"{ffn.top_groups} groups have only {ffn.num // ffn.num_groups * ffn.top_groups} experts; raise top_groups"
        )
        yield Fault((*where, "top_k"), ffn.top_k, wrong)


def _check_output(model: Shape) -> Iterator[Fault]:
    if model.fix_norm:
        if isinstance(model, EncoderConfig):
            biased = isinstance(model.head, WordsConfig) and model.head.bias
            where = ("model", "head", "bias")
        else:
            biased, where = model.output.bias, ("model", "output", "bias")
        if biased:
            yield Fault(where, True, "unit vectors have no room for a bias (model.fix_norm); set it to false")
    head = model.head if isinstance(model, EncoderConfig) else None
    narrow = model.embed_dim not in (None, model.dim)
    if isinstance(head, WordsConfig) and head.tie and head.transform is None and narrow:
        wrong = f"the table is {model.embed_dim} wide and the stream {model.dim}; take a transform, or untie it"
        yield Fault(("model", "head", "tie"), True, wrong)


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


READS = {
    "translate": ("seq2seq", None),
    "spans": ("seq2seq", None),
    "causal": ("lm", None),
    "prefix": ("lm", None),
    "chat": ("lm", None),
    "ul2": ("seq2seq", None),
    "masked": ("encoder", "words"),
    "permuted": ("encoder", "words"),
    "both_ways": ("encoder", "words"),
    "answers": ("encoder", "span"),
    "classes": ("encoder", "classes"),
    "number": ("encoder", "classes"),
    "tags": ("encoder", "tags"),
    "contrast": ("encoder", "vector"),
}
"""The shape of model that each objective trains, and its head."""


def check_objective(recipe: Recipe) -> Iterator[Fault]:
    """Whether the model is one that the objective trains, and its vocabulary has what it takes."""
    objective, model, tokenizer = recipe.objective, recipe.model, recipe.tokenizer
    shape, head = READS[objective.kind]
    if model.kind != shape:
        fitting = ", ".join(name for name, (kind, _) in READS.items() if kind == model.kind)
        wrong = f'trains a model of kind "{shape}", and model.kind = "{model.kind}", for which there are {fitting}'
        yield Fault(("objective", "kind"), objective.kind, wrong)
        return
    if isinstance(model, EncoderConfig):
        found = model.head.kind if model.head else "none"
        if found != head:
            yield Fault(("model", "head"), found, f'objective.kind = "{objective.kind}" trains a head of kind "{head}"')
        elif isinstance(model.head, ClassesConfig | TagsConfig):
            names = dict(objective).get("names", ("a number",))
            if model.head.num != len(names):
                wrong = f"the objective has {len(names)} ({', '.join(names[:5])}); take {len(names)}"
                yield Fault(("model", "head", "num"), model.head.num, wrong)
            if len(set(names)) < len(names):
                yield Fault(("objective", "names"), list(names), "has a name twice; drop one")
    if isinstance(model, EncoderConfig):
        yield from _check_guesses(objective, model)
    if isinstance(model, LMConfig) and (objective.kind == "prefix") != model.prefix:
        wrong = f'objective.kind = "{objective.kind}" needs it to be {str(not model.prefix).lower()}'
        yield Fault(("model", "prefix"), model.prefix, wrong)
    chat = isinstance(objective, ChatObjectiveConfig)
    if isinstance(model, LMConfig) and (chat or (isinstance(objective, CausalConfig) and objective.rows == "lines")):
        for index, layer in enumerate(model.stack.layers):
            if isinstance(layer.mixer, LinearAttentionConfig | ElmanConfig | LSTMConfig | GRUConfig):
                remedy = "take attention" if chat else 'take attention, or objective.rows = "blocks"'
                wrong = f"cannot keep the texts of a row apart; {remedy}"
                yield Fault(("model", "stack", "layers", index, "mixer", "kind"), layer.mixer.kind, wrong)
    needed = TAGS.get(objective.kind, ())
    if chat and objective.chat == "chatml":
        needed = ("|im_start|", "|im_end|")
    if tokenizer.kind != "file" and (missing := [tag for tag in needed if tag not in tokenizer.tags]):
        wrong = (
            f'objective.kind = "{objective.kind}" needs pieces of its own; add {", ".join(map(repr, missing))} to it'
        )
        yield Fault(("tokenizer", "tags"), list(tokenizer.tags), wrong.replace("'", '"'))
    if objective.kind == "translate":
        return
    if tokenizer.kind == "file" and tokenizer.target_path is not None:
        yield Fault(("tokenizer", "target_path"), tokenizer.target_path, "is for pairs, and one text is read; drop it")
    if tokenizer.kind != "file" and not tokenizer.shared:
        yield Fault(("tokenizer", "shared"), False, "is for pairs, and one text is read; drop it")
    if recipe.train.lora is not None:
        yield Fault(("train", "lora"), "{...}", "is for models of pairs so far; drop it")


TAGS = {"masked": ("mask",), "ul2": ("R", "S", "X")}
"""What the vocabulary has to have for an objective, besides sentinels."""


def _check_guesses(objective: ObjectiveConfig, model: EncoderConfig) -> Iterator[Fault]:
    """Of an encoder: what it has, and the objective does not train or asks in vain."""
    turns = objective.kind == "permuted"
    if turns != model.two_streams:
        wrong = f'objective.kind = "{objective.kind}" needs it to be {str(turns).lower()}'
        yield Fault(("model", "two_streams"), model.two_streams, wrong)
    if objective.kind == "both_ways" and model.stack.kind != "both_ways":
        wrong = 'objective.kind = "both_ways" trains the two language models of a stack of kind "both_ways"'
        yield Fault(("model", "stack", "kind"), model.stack.kind, wrong)
    if model.stack.kind == "decomposable":
        yield from _check_decomposable(objective, model)
    if model.two_streams and model.stack.kind != "stack":
        yield Fault(("model", "two_streams"), True, f'a stack of kind "{model.stack.kind}" has one stream; drop it')
    follows = isinstance(objective, MaskedConfig) and objective.next_sentence
    if isinstance(model.head, WordsConfig) and model.head.next != follows:
        wrong = "says whether a second sentence follows, which objective.next_sentence trains; set both or none"
        yield Fault(("model", "head", "next"), model.head.next, wrong)


def _check_decomposable(objective: ObjectiveConfig, model: EncoderConfig) -> Iterator[Fault]:
    if objective.kind not in ("classes", "number"):
        wrong = "holds two texts against each other, which objectives classes and number ask of; take another stack"
        yield Fault(("model", "stack", "kind"), "decomposable", wrong)
    if model.dim % 2:
        yield Fault(("model", "dim"), model.dim, "decomposable attention works at half of it; take an even dim")


def _check_texts(recipe: Recipe) -> Iterator[Fault]:
    """The files of an objective that reads texts, and what is for pairs alone."""
    data, kind = recipe.data, recipe.objective.kind
    if data.text is None:
        yield Fault(("data", "text"), MISSING, f'missing; objective.kind = "{kind}" reads a file of texts')
    stack = getattr(recipe.model, "stack", None)
    if stack is not None and stack.kind == "decomposable" and data.second is None:
        yield Fault(("data", "second"), MISSING, "missing; a stack of kind decomposable compares two texts")
    serves = {
        "labels": ("classes", "number", "tags", "answers"),
        "second": ("classes", "number", "contrast", "answers"),
    }
    for name, needed in (("labels", True), ("second", False)):
        for prefix in ("", "valid_"):
            value = getattr(data, prefix + name)
            if value is not None and kind not in serves[name]:
                yield Fault(("data", prefix + name), value, f'not used by objective.kind = "{kind}"; drop it')
            due = prefix == "" or data.valid_text is not None
            needed = needed or kind == "answers"
            if value is None and kind in serves[name] and due and (needed or getattr(data, name) is not None):
                yield Fault(("data", prefix + name), MISSING, "missing; give it beside the file of texts")
            if value is not None and prefix and data.valid_text is None:
                yield Fault(("data", prefix + name), value, "needs data.valid_text with it")
    texts = ("text", "second", "labels", "valid_text", "valid_second", "valid_labels")
    both = (*texts, "holdout_share", "holdout_most", "source_language", "max_len")
    for name, part in DataConfig.model_fields.items():
        value = getattr(data, name)
        if name not in both and value != part.get_default(call_default_factory=True):
            shown = value if isinstance(value, str | int | float) else "{...}"
            yield Fault(("data", name), shown, "is for pairs, and objective.kind reads texts; drop it")
    if data.valid_text is not None:
        for name in ("holdout_share", "holdout_most"):
            if getattr(data, name) != DataConfig.model_fields[name].default:
                wrong = "not used where validation files are named; drop it, or drop valid_text"
                yield Fault(("data", name), getattr(data, name), wrong)
    places = recipe.model.position.max_len if isinstance(recipe.model.position, LearnedConfig) else None
    if places is not None and places < data.max_len:
        wrong = f"too few for data.max_len = {data.max_len} tokens; take {data.max_len} or more"
        yield Fault(("model", "position", "max_len"), places, wrong)


def check_data(recipe: Recipe) -> list[Fault]:
    data, position = recipe.data, recipe.model.position
    if recipe.objective.kind != "translate":
        return list(_check_texts(recipe))
    faults = [*_check_corpora(data, recipe.tokenizer), *_check_valid(data)]
    for name in ("text", "second", "labels", "valid_text", "valid_second", "valid_labels"):
        if getattr(data, name) is not None:
            wrong = "is for objectives that read texts, and a pair is translated; set objective.kind, or drop it"
            faults.append(Fault(("data", name), getattr(data, name), wrong))
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
