"""Recipes: TOML in, configs out, and back. No torch.

What TOML may say beyond the configs, all of it rewritten here into their plain form before anything is checked:

* `model = "transformer-tiny"` or `model = {preset = "transformer-tiny", dropout = 0.3}`: a preset, with changes.
* `mixer = "attention"` for `mixer = {kind = "attention"}`, wherever parts come in kinds.
* `[model.decoder.layer]`: a default under every entry of `layers`; `{repeat = 5, mixer = "linear"}`: five such layers.
  Where an entry names another kind than its default, it keeps what the new kind also knows (`num_heads`).
* A part that has a default may leave out its `kind`: `penalty = {alpha = 1.0}`; so may a stack, which has layers.
* `clip = "none"` switches off what `headway.config` marks as OFF.

Faults are then led back to the place that was written: to `layers[0]` of a repeated entry, or to the default layer.
"""

import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from headway.architecture import EncoderConfig, LayerConfig, LMConfig, Seq2SeqConfig, StackConfig
from headway.check import check
from headway.config import Recipe
from headway.presets import PRESETS, preset
from headway.strict import MISSING, Config, ConfigError, Fault, Where, kinds, nearest, show_where, validate, variants

Table = dict[str, Any]
Choices = Sequence[type[Config]]
Origins = dict[Where, list[int]]
Shape = Seq2SeqConfig | LMConfig | EncoderConfig
C = TypeVar("C", bound=Recipe | Seq2SeqConfig | LMConfig | EncoderConfig)

RECIPES = Path(__file__).parent / "recipes"
MOST_REPEATS = 1000
STACKS = (("model", "encoder"), ("model", "decoder"), ("model", "stack"))
SHAPES: dict[str, type[Shape]] = {"seq2seq": Seq2SeqConfig, "lm": LMConfig, "encoder": EncoderConfig}


# ---- reading ----


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    return sorted(path.stem for path in RECIPES.glob("*.toml"))


def load_recipe(name: str | Path, overrides: Mapping[str, Any] | None = None) -> Recipe:
    """A recipe by its path, or by name where it comes with the package, with `{"train.steps": 100}` changed in it.

    Raises ConfigError with every fault.
    """
    return parse_recipe(read_toml(_find(name)), overrides, source=str(name))


def recipe_folder(name: str | Path) -> Path:
    """Where a recipe's relative paths start: its own folder, or for a recipe of the package the current one."""
    path = _find(name)
    return Path.cwd() if path.parent == RECIPES else path.absolute().parent


def _find(name: str | Path) -> Path:
    path, known = Path(name), recipe_names()
    if path.is_file() or path.suffix == ".toml" or len(path.parts) > 1:
        return path
    if str(name) in known:
        return RECIPES / f"{name}.toml"
    raise ConfigError([Fault((), MISSING, f"no such file and no such recipe; {nearest(name, known)}")], str(name))


def read_toml(path: Path) -> Table:
    """The data of a TOML file. Raises ConfigError where there is none, or it is unreadable or no TOML."""
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n"))
    except FileNotFoundError:
        wrong = "there is no such file; check the path, or let `headway init` write one"
    except OSError as error:
        wrong = f"cannot be read ({error.strerror}); name a text file that you may read"
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        wrong = f"not UTF-8 at line {line} (byte {error.start}); save it as UTF-8"
    except tomllib.TOMLDecodeError as error:
        wrong = f"not TOML: {error}; texts need quotes, and each key stands once"
    raise ConfigError([Fault((), MISSING, wrong)], str(path))


def parse_recipe(data: Table, overrides: Mapping[str, Any] | None = None, source: str = "the recipe") -> Recipe:
    """The recipe that TOML data spells. Raises ConfigError with every fault of shape, or else every contradiction."""
    return _parse(Recipe, data, (), overrides or {}, source)


def parse_model(data: Table | str, overrides: Mapping[str, Any] | None = None, source: str = "the model") -> Shape:
    """The model that a `[model]` section or a preset's name spells, of whatever shape (a pair where it does not say);
    overrides and faults say `model.` as in recipes."""
    kind = data.get("kind", "seq2seq") if isinstance(data, Mapping) and "preset" not in data else None
    if isinstance(data, str | Mapping) and kind is None:
        name = data if isinstance(data, str) else data["preset"]
        kind = PRESETS[name]["kind"] if isinstance(name, str) and name in PRESETS else "seq2seq"
    if kind not in SHAPES:
        raise ConfigError([Fault(("model", "kind"), kind, f"no such kind; {nearest(kind, SHAPES)}")], source)
    return _parse(SHAPES[kind], {"model": data}, ("model",), overrides or {}, source)


def _parse(cls: type[C], data: Table, where: Where, overrides: Mapping[str, Any], source: str) -> C:
    written, faults = _as_written(data, overrides)
    plain, origins, more = _plain(written)
    config, shape = validate(cls, plain["model"] if where else plain, where)
    faults += more
    if config is not None and not faults:
        shape = check(config)
    faults += [Fault(_led_back(fault.where, written, origins), fault.value, fault.wrong) for fault in shape]
    if faults or config is None:  # a layer that is repeated repeats its faults, hence the dictionary
        raise ConfigError({str(fault): fault for fault in faults}.values(), source)
    return config


# ---- from what is written to the plain form ----


def _children(choices: Choices, table: Table) -> dict[str, list[type[Config]]]:
    """The keys of a table that may become one of `choices`, each with the configs that its value may become."""
    fitting = [cls for cls in choices if table.get("kind") in kinds(cls)] or choices
    found = {name: variants(field.annotation) for cls in fitting for name, field in cls.model_fields.items()}
    return {**found, "layer": [LayerConfig]} if StackConfig in fitting else found


def _spelt(choices: Choices, value: Any) -> Any:
    """The value with `{kind = "x"}` for "x" wherever parts come in kinds."""
    if isinstance(value, str) and kinds(*choices) and (value != "none" or "none" in kinds(*choices)):
        return {"kind": value}
    if isinstance(value, list):
        return [_spelt(choices, entry) for entry in value]
    if isinstance(value, dict):
        children = _children(choices, value)
        return {key: _spelt(children.get(key, ()), entry) for key, entry in value.items()}
    return value


def _merge(choices: Choices, default: Any, over: Any) -> Any:
    """The tables of `over` laid over those of `default`. Under another kind only those keys stay that it also knows."""
    if not isinstance(default, dict) or not isinstance(over, dict):
        return over
    if default.get("kind", over.get("kind")) != over.get("kind", default.get("kind")):
        default = {key: value for key, value in default.items() if key in _children(choices, over)}
    children = _children(choices, {**default, **over})
    laid = {key: _merge(children.get(key, ()), default.get(key), value) for key, value in over.items()}
    return {**default, **laid}


def _as_written(data: Table, overrides: Mapping[str, Any]) -> tuple[Table, list[Fault]]:
    """The data with kinds spelt out, its preset under it and the overrides over it, and what was wrong with those."""
    data, overrides, faults = deepcopy(data), deepcopy(dict(overrides)), []
    model, where = overrides.pop("model", data.get("model")), ("model", "preset")
    if isinstance(model, str):
        model, where = {"preset": model}, ("model",)
    if isinstance(model, dict) and "model.preset" in overrides:
        model, where = {**model, "preset": overrides.pop("model.preset")}, ("model", "preset")
    if model is not None:
        data["model"] = model
    data = _spelt([Recipe], data)
    if isinstance(data.get("model"), dict) and "preset" in data["model"]:
        name = data["model"].pop("preset")
        if not isinstance(name, str) or name not in PRESETS:
            faults.append(Fault(where, name, f"no such preset; {nearest(name, PRESETS)}"))
            name = "transformer-base"  # stands in, so that what else is wrong is found as well
        # Spelling copies every table, so that those which a preset uses twice can be changed one by one.
        shapes = list(SHAPES.values())
        data["model"] = _spelt(shapes, _merge(shapes, preset(name), data["model"]))
    faults += [fault for path, value in overrides.items() if (fault := _set(data, path, value))]
    return data, faults


def _set(data: Table, path: str, value: Any) -> Fault | None:
    """Set `model.decoder.layers.0.mixer.window` (or `layers[0]`). A bare name of a kind keeps what the kind knows."""
    parts = re.split(r"[.\[\]]+", path.removesuffix("]"))
    where = tuple(int(part) if part.isdecimal() else part for part in parts)
    node: Any = data
    choices: Choices = [Recipe]
    for depth, part in enumerate(where):
        last, above = depth == len(where) - 1, show_where(where[:depth])
        if isinstance(node, list):
            if not isinstance(part, int) or part >= len(node):
                return Fault(where, value, f"{above} is a list of {len(node)}; its entries are numbered from 0")
            key: Any = part
        elif isinstance(node, dict):
            key = str(part)
            choices = _children(choices, node).get(key, [])
            if not last:
                node.setdefault(key, {})
        else:
            return Fault(where, value, f"{above} is no table")
        if last:
            old, new = node[key] if isinstance(node, list) else node.get(key), _spelt(choices, value)
            node[key] = _merge(choices, old, new) if isinstance(value, str) else new
        else:
            node = node[key]
    return None


def _plain(written: Table) -> tuple[Table, Origins, list[Fault]]:
    """The form of the configs: layers laid over their default and repeated, kinds that have a default filled in."""
    plain, origins, faults = deepcopy(written), {}, []
    for where in STACKS:
        stack = _look(plain, where)
        if not isinstance(stack, dict) or stack.get("kind", "stack") != "stack":
            continue
        default, layers, origin = stack.pop("layer", {}), [], []
        if not isinstance(default, dict):
            faults.append(Fault((*where, "layer"), default, "needs a table"))
        elif "repeat" in default:
            wrong = "the default lies under every layer; repeat an entry of layers"
            faults.append(Fault((*where, "layer", "repeat"), default.pop("repeat"), wrong))
        if not isinstance(stack.get("layers"), list):
            continue
        for index, entry in enumerate(stack["layers"]):
            repeat = entry.pop("repeat", 1) if isinstance(entry, dict) else 1
            if type(repeat) is not int or not 1 <= repeat <= MOST_REPEATS:
                wrong = f"needs a whole number from 1 to {MOST_REPEATS}"
                faults.append(Fault((*where, "layers", index, "repeat"), repeat, wrong))
                repeat = 1
            layers += [_merge([LayerConfig], default, entry)] * repeat
            origin += [index] * repeat
        stack.setdefault("kind", "stack")
        stack["layers"], origins[where] = layers, origin
    if isinstance(plain.get("model"), dict):
        plain["model"].setdefault("kind", "seq2seq")
    for section, field in Recipe.model_fields.items():
        for cls in variants(field.annotation):
            for name, part in cls.model_fields.items():
                value = _look(plain, (section, name))
                if isinstance(value, dict) and len(variants(part.annotation)) > 1 and isinstance(part.default, Config):
                    value.setdefault("kind", kinds(type(part.default))[0])
    return plain, origins, faults


def _look(tree: Any, where: Where) -> Any:
    for part in where:
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree


def _led_back(where: Where, written: Table, origins: Origins) -> Where:
    """The place that was written: the entry that was repeated, or the default layer where more of the path is there."""
    for stack, origin in origins.items():
        if where[:3] == (*stack, "layers") and len(where) > 3 and isinstance(where[3], int):
            index, rest = origin[where[3]], where[4:]
            entry = (*stack, "layers", index)
            table, default = _look(written, stack)["layers"][index], _look(written, (*stack, "layer"))
            return (*stack, "layer", *rest) if _known(default, rest) > _known(table, rest) else (*entry, *rest)
    return where


def _known(tree: Any, rest: Where) -> int:
    """How many steps of the path exist in the tree."""
    return next((depth for depth in range(len(rest), 0, -1) if _look(tree, rest[:depth]) is not None), 0)


# ---- paths ----

PATHS = ("source", "target", "path", "target_path", "valid", "valid_source", "valid_target", "test", "store")
PATHS += ("text", "second", "labels", "valid_text", "valid_second", "valid_labels")
"""The keys of [data], its corpora and [tokenizer] that name files or folders."""


def resolve_paths(recipe: Recipe, folder: str | Path) -> Recipe:
    """The recipe with the paths of its data and tokenizer made whole: `~`, `$NAME` and `${NAME}` are expanded (`$$` is
    a dollar sign), and what is relative starts at `folder`. To be called once, when the data is to be read.

    Raises ConfigError naming every variable that is not set.
    """
    faults: list[Fault] = []

    def whole(where: Where, text: str) -> str:
        unset = [name for name in _VARIABLE.findall(text) if name and not os.environ.get(name.strip("{}"))]
        for name in (name.strip("{}") for name in unset):
            wrong = f"the environment variable {name} is not set; set it, or write the path out"
            faults.append(Fault(where, text, wrong))
        expanded = _VARIABLE.sub(lambda found: _value(found[1]), os.path.expanduser(text)) if not unset else text
        return str(Path(folder) / expanded)

    resolved = _with_paths(recipe, whole)
    if faults:
        raise ConfigError(faults, "the recipe")
    return resolved


def _with_paths(recipe: Recipe, change: Callable[[Where, str], str]) -> Recipe:
    """The recipe with each path of its data and tokenizer changed; `change` is told where in the TOML it stands."""

    def changed(value: Any, where: Where) -> Any:
        if isinstance(value, Config):
            return value.model_copy(update={key: changed(part, (*where, key)) for key, part in value})
        if isinstance(value, tuple):
            return tuple(changed(part, (*where, index)) for index, part in enumerate(value))
        named = any(part in PATHS for part in where[-2:] if isinstance(part, str))
        return change(where, value) if named and isinstance(value, str) else value

    return recipe.model_copy(update={name: changed(getattr(recipe, name), (name,)) for name in ("data", "tokenizer")})


_VARIABLE = re.compile(r"\$(?:\$|(\w+|\{\w+\}))")  # the group is empty for $$


def _value(name: str | None) -> str:
    return os.environ[name.strip("{}")] if name else "$"


def literal_path(path: str | Path) -> str:
    """A path as a recipe writes it so that `resolve_paths` gives this very file, wherever the recipe lies."""
    return str(Path(path).absolute()).replace("$", "$$")


def literal_paths(recipe: Recipe) -> Recipe:
    """The inverse of `resolve_paths`, for a recipe that is to be written: its whole paths as `literal_path` spells
    them."""
    return _with_paths(recipe, lambda _, path: literal_path(path))


# ---- writing ----


def starter_recipe(source: str = "train.en", target: str = "train.de") -> str:
    """The text of a first recipe, each key explained."""
    text = (RECIPES / "starter.toml").read_text(encoding="utf-8")
    return text.replace('"train.en"', _toml(source)).replace('"train.de"', _toml(target))


def dump_toml(recipe: Recipe) -> str:
    """TOML that loads back to an equal recipe, every default written out so that it outlives a change of defaults."""
    data = recipe.model_dump(mode="json", exclude_none=True)
    del data["search"]["n_best"]  # for the command that translates
    if recipe.train.clip is None:
        data["train"]["clip"] = "none"  # the one key whose default is not to leave it out
    for key in ("corpora", "test"):
        if not data["data"][key]:
            del data["data"][key]
    if recipe.data.valid_source is not None or recipe.data.valid is not None:
        del data["data"]["holdout_share"], data["data"]["holdout_most"]  # not used
    for where in STACKS:
        stack = _look(data, where)
        if stack is not None and "layers" in stack:
            layers = stack.pop("layers")
            shared = {
                key: value for key, value in layers[0].items() if all(layer.get(key) == value for layer in layers)
            }
            own = [{key: value for key, value in layer.items() if key not in shared} for layer in layers]
            stack["layers"] = [{"repeat": len(list(run)), **entry} for entry, run in groupby(own)]
            stack["layer"] = shared
    return "\n".join(_section((name,), table) for name, table in data.items())


def _section(where: Where, table: Table) -> str:
    """A table under its header; tables that hold tables get headers of their own, the others stand in one line."""
    nested = {key: value for key, value in table.items() if isinstance(value, dict) and _holds_tables(value)}
    lines = [f"{key} = {_toml(value)}" for key, value in table.items() if key not in nested]
    text = "\n".join([f"[{show_where(where)}]", *lines, ""])
    return "\n".join([text, *(_section((*where, key), value) for key, value in nested.items())])


def _holds_tables(table: Table) -> bool:
    return any(
        isinstance(value, dict) or (isinstance(value, list) and isinstance((value or [None])[0], dict))
        for value in table.values()
    )


def _toml(value: Any) -> str:
    """A value on one line. TOML's basic strings are JSON's, but for the delete character."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
