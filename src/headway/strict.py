"""Strict configs: their base class, their faults, and the first pass of checking, which finds every fault of shape.

Pydantic does the finding; the words and the places are ours, because its locations carry the tags of unions and some of
its findings only echo others. What a person gets to read names a place in the TOML, the value there, and a remedy.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails


class Config(BaseModel):
    """Unknown keys are refused, nothing is converted (but a whole number may stand for a float, a list for a tuple)."""

    toml_keys: ClassVar[tuple[str, ...]] = ()  # further keys that `headway.recipe` understands and removes

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


Where = tuple[str | int, ...]
MISSING: Any = object()


@dataclass(frozen=True)
class Fault:
    """One thing wrong: where (a path into the TOML), the value found there, what is wrong and what would be right."""

    where: Where
    value: Any
    wrong: str

    def __str__(self) -> str:
        value = "" if self.value is MISSING else f" = {show(self.value)}"
        return f"{show_where(self.where)}{value}: {self.wrong}" if self.where else self.wrong


class ConfigError(ValueError):
    """All faults of one config, in `faults` and in the message."""

    def __init__(self, faults: Iterable[Fault], source: str = "the config") -> None:
        self.faults = list(faults)
        count = "1 fault" if len(self.faults) == 1 else f"{len(self.faults)} faults"
        super().__init__("\n  ".join([f"{source} has {count}:", *map(str, self.faults)]))


def show_where(where: Where) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).removeprefix(".")


def show(value: Any) -> str:
    """A value as TOML writes it, on one line, cut where it is long."""
    if isinstance(value, Mapping):
        text = "{" + ", ".join(f"{key} = {show(entry)}" for key, entry in value.items()) + "}"
    elif isinstance(value, list | tuple):
        text = "[" + ", ".join(map(show, value)) + "]"
    else:
        text = json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def nearest(word: object, valid: Iterable[str]) -> str:
    """`did you mean "x"?` where something is near, and everything that is valid."""
    valid = list(valid)
    close = get_close_matches(str(word), valid, n=1)
    return (f'did you mean "{close[0]}"? ' if close else "") + f"valid: {', '.join(valid)}"


C = TypeVar("C", bound=Config)


def validate(cls: type[C], data: Any, where: Where = ()) -> tuple[C | None, list[Fault]]:
    """The config that plain data (from TOML or JSON) spells, or every fault of its shape. `where`: the data's place."""
    try:
        return cls.model_validate(data), []
    except ValidationError as error:
        faults = [_fault(cls, detail, where) for detail in error.errors(include_url=False)]
        return None, [fault for fault in faults if fault is not None]


def variants(annotation: Any) -> list[type[Config]]:
    """The config classes that a field may hold: several for a union tagged by kind, none for a number or a text."""
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return [annotation]
    return [found for part in get_args(annotation) for found in variants(part)]


def kinds(*classes: type[Config]) -> list[str]:
    """The tags that these classes answer to."""
    return [
        tag for cls in classes if "kind" in cls.model_fields for tag in get_args(cls.model_fields["kind"].annotation)
    ]


_WRONG = {
    "missing": "missing",
    "int_type": "needs a whole number",
    "float_type": "needs a number",
    "string_type": "needs a text in quotes",
    "bool_type": "needs true or false",
    "tuple_type": "needs a list",
    "model_type": "needs a table",
    "finite_number": "needs a finite number",
    "string_too_short": "needs a text that is not empty",
    "greater_than": "needs to be more than {gt:g}",
    "greater_than_equal": "needs to be {ge:g} or more",
    "less_than_equal": "needs to be {le:g} or less",
    "less_than": "needs to be less than {lt:g}",
    "too_short": "needs {min_length} or more entries",
    "too_long": "needs {max_length} entries",
    "value_error": "{error}",
}


def _fault(cls: type[Config], detail: ErrorDetails, where: Where) -> Fault | None:
    """Pydantic's finding in our words, or None for an echo of another finding."""
    owner, choices, path = cls, [cls], where
    for part in detail["loc"]:
        if isinstance(part, str) and len(choices) > 1:
            choices = [choice for choice in choices if part in kinds(choice)]
            continue
        path = (*path, part)
        if isinstance(part, str):
            owner = choices[0]
            choices = variants(owner.model_fields[part].annotation) if part in owner.model_fields else []
    value, context = detail["input"], detail.get("ctx", {})
    match detail["type"]:
        case "default_factory_not_called":
            return None
        case "too_short" if len(value) >= context["min_length"]:  # its entries are at fault, and are reported
            return None
        case "union_tag_invalid":
            return Fault((*path, "kind"), value["kind"], f"no such kind; {nearest(value['kind'], kinds(*choices))}")
        case "union_tag_not_found":
            return Fault((*path, "kind"), MISSING, f"missing; {nearest('', kinds(*choices))}")
        case "model_attributes_type":
            return Fault(
                path, value, f"needs a table with a kind, or the name of a kind; {nearest('', kinds(*choices))}"
            )
        case "literal_error":
            valid = get_args(owner.model_fields[str(path[-1])].annotation)
            return Fault(path, value, f"no such {'kind' if path[-1] == 'kind' else 'choice'}; {nearest(value, valid)}")
        case "extra_forbidden":
            valid = (*owner.model_fields, *owner.toml_keys)
            return Fault(path, value, f"no such key; {nearest(path[-1], valid)}")
        case "missing":
            return Fault(path, MISSING, f"missing; {nearest('', kinds(*choices))}" if kinds(*choices) else "missing")
        case other:
            return Fault(path, value, _WRONG.get(other, detail["msg"]).format(**context))
