"""Chat templates of others, rendered with bounded work, each character marked with where it comes from.

A template is a program that arrives with a model, so it runs in jinja2's immutable sandbox, and here with three things
more. No clock bounds them: the same template and texts give the same text, or the same refusal, on every machine.

    work      a rendering has WORK steps, and PER_CHARACTER more for each character that it is given (a value counts as
              16 more). A node of the template is a step each time it is passed, CHARACTERS characters that are read
              or made are one, and so is an element of a list. What would make a large value pays before it makes it.
    deny      what is not named here is not there: attributes, methods, filters, tags, functions. No file, no import.
    marks     a text knows of each character whether the caller gave it (GIVEN) and whether it is in a block
              {% generation %} (ANSWER), through everything that a template can do with texts. Where a filter mixes
              texts so that characters cannot be told apart, the result has the marks of all of them.

Templates that were written for Hugging Face's `apply_chat_template` are meant: trim_blocks, lstrip_blocks, break,
continue, {% generation %}, tojson, raise_exception, namespace. Twins in tests/test_chat.py: jinja2, transformers.
"""

import json
import operator
import re
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Sequence, ValuesView
from functools import partial, reduce
from string import Formatter
from types import GeneratorType
from typing import Any

from jinja2 import Template as Compiled
from jinja2 import TemplateSyntaxError, Undefined, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.ext import Extension
from jinja2.filters import FILTERS as DEFAULT_FILTERS
from jinja2.filters import make_attrgetter
from jinja2.parser import Parser
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

GIVEN, ANSWER = 1, 2
ANSWERED = bytes(marks | ANSWER for marks in range(256))

LONGEST_TEMPLATE = 65_536
"""Characters of a template; the longest that are published have some 30,000."""

WORK, PER_CHARACTER, CHARACTERS = 1_000_000, 8, 16
DEEPEST_NODE, DEEPEST_CALL, DEEPEST_VALUE, DEEPEST_GIVEN = 100, 50, 64, 32
LARGEST_NUMBER, LARGEST_RANGE, WIDEST = 2**63, 100_000, 100


class Marked(str):
    """A text with a byte for each of its characters: GIVEN and ANSWER, or 0 for what the template itself says."""

    __slots__ = ("marks",)
    marks: bytes

    def __new__(cls, text: str, marks: bytes) -> "Marked":
        assert len(text) == len(marks), (len(text), len(marks))
        made = super().__new__(cls, text)
        made.marks = marks
        return made

    def __getitem__(self, key: Any) -> "Marked":
        found = self.marks[key]
        return Marked(super().__getitem__(key), found if isinstance(found, bytes) else bytes([found]))

    def __iter__(self) -> Iterator[str]:
        return (self[place] for place in range(len(self)))

    def __str__(self) -> str:
        return self


def marks_of(text: str) -> bytes:
    return text.marks if isinstance(text, Marked) else bytes(len(text))


def all_marks(text: str) -> int:
    return reduce(operator.or_, set(text.marks), 0) if isinstance(text, Marked) else 0


def spread(text: str, marks: int) -> str:
    """A text whose characters all have the same marks."""
    return Marked(text, bytes([marks]) * len(text)) if marks else text


def recased(text: str, made: str) -> str:
    """What became of a text, character by character where no letter became two."""
    return Marked(made, marks_of(text)) if len(made) == len(text) else spread(made, all_marks(text))


def located(text: str, parts: Sequence[str], gap: int) -> list[str]:
    """The parts of a text, which stand in it one after the other with so many characters (or only white) between."""
    found, at = [], 0
    for part in parts:
        at = text.find(part, at)
        found.append(text[at : at + len(part)])
        at += len(part) + gap
    return found


class Refusal(Exception):
    """What a template says by raise_exception."""


class Stream(list[Any]):
    """What jinja2 gives as a generator, which is true even if nothing is in it."""

    def __bool__(self) -> bool:
        return True


# ---- what there is ----

LISTS = list, tuple, KeysView, ValuesView, ItemsView, range
SIZED = (str, dict, *LISTS)


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ASKS = words(
    """startswith endswith find rfind index rindex count isalnum isalpha isascii isdecimal isdigit islower isnumeric
    isspace istitle isupper"""
)
CASES = words("upper lower title capitalize swapcase casefold")
PARTS = words("strip lstrip rstrip removeprefix removesuffix split rsplit splitlines partition rpartition")
SLOW = words("strip lstrip rstrip rfind rindex rsplit rpartition")
"""Methods that may look at every character of the argument for each of the text."""

METHODS: dict[type, frozenset[str]] = {
    str: ASKS | CASES | PARTS | words("replace join format"),
    dict: words("get items keys values"),
    list: words("index count"),
    tuple: words("index count"),
}
LOOP = words("index index0 revindex revindex0 first last length previtem nextitem depth depth0")

FREE, FLAT, DEEP, SORTS = 0, 1, 2, 16
"""What a filter pays for: nothing, the number of elements, all that is in them, and that times a logarithm."""

FILTERS = {
    **dict.fromkeys(words("length count default d first last"), FREE),
    **dict.fromkeys(words("list items map select reject selectattr rejectattr"), FLAT),
    **dict.fromkeys(words("int float abs round wordcount"), DEEP),
    **dict.fromkeys(words("sort unique min max dictsort"), SORTS),
}
OWN = words("upper lower capitalize trim title replace join indent string safe tojson reverse format")
"""Filters that make texts and so have to keep marks: methods of a text, or `filter_...` of `Sandbox`."""

SHALLOW_TESTS = words(
    """defined undefined none boolean true false integer float number string mapping sequence iterable callable sameas
    filter test"""
)

PERCENT = re.compile(r"%(?:\((\w+)\))?([-#0 +]{0,5}[0-9]{0,3}(?:\.[0-9]{1,3})?)([sdifegxX%])")

COMPARE = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "gteq": operator.ge,
    "lt": operator.lt,
    "lteq": operator.le,
    "in": lambda left, right: left in right,
    "notin": lambda left, right: left not in right,
}

STATEMENTS = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.For,
    nodes.If,
    nodes.Macro,
    nodes.CallBlock,
    nodes.FilterBlock,
    nodes.With,
    nodes.Assign,
    nodes.AssignBlock,
    nodes.Continue,
    nodes.Break,
)
TAGS = {
    nodes.Block: "block",
    nodes.Extends: "extends",
    nodes.Include: "include",
    nodes.Import: "import",
    nodes.FromImport: "from ... import",
    nodes.ScopedEvalContextModifier: "autoescape",
}


class Generation(Extension):
    """{% generation %} ... {% endgeneration %}: what the model is to say."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        call = nodes.Call(nodes.EnvironmentAttribute("answered"), [], [], None, None)
        return nodes.CallBlock(call, [], [], body).set_lineno(line)


# ---- before it runs ----


def weight(found: Iterable[nodes.Node]) -> int:
    """Steps of going through nodes once, and of getting there."""
    todo, steps = list(found), 4
    while todo:
        node = todo.pop()
        steps += 1
        if isinstance(node, nodes.TemplateData):
            steps += len(node.data) // CHARACTERS
        todo += node.iter_child_nodes()
    return steps


def payment(found: Iterable[nodes.Node]) -> nodes.Expr:
    """Written into the program as `environment.spend(5)`, which is true."""
    return nodes.EnvironmentAttribute(f"spend({weight(found)})")


def faults_of(tree: nodes.Template) -> Iterator[str]:
    """Everything in a template that is not served."""
    todo: list[tuple[nodes.Node, int]] = [(tree, 0)]
    while todo:
        node, depth = todo.pop()
        if depth > DEEPEST_NODE:
            yield f"line {node.lineno}: is nested more than {DEEPEST_NODE} deep"
            return
        # Python nests an elif in the one before.
        order = {id(other): place for place, other in enumerate(node.elif_)} if isinstance(node, nodes.If) else {}
        todo += [(child, depth + 1 + order.get(id(child), 0)) for child in node.iter_child_nodes()]
        match node:
            case nodes.For(recursive=True):
                yield f"line {node.lineno}: a recursive loop; write a macro that calls itself"
            case nodes.Stmt() if not isinstance(node, STATEMENTS):
                yield f"line {node.lineno}: {TAGS.get(type(node), type(node).__name__)} is no tag of a chat template"
            case nodes.Call() | nodes.Filter() | nodes.Test() if node.dyn_args or node.dyn_kwargs:
                yield f"line {node.lineno}: * and ** in a call; name the arguments"
            case nodes.Filter() if node.name not in (there := OWN.union(FILTERS)):
                yield f"line {node.lineno}: there is no filter {node.name}; there are {', '.join(sorted(there))}"
            case nodes.Test() if node.name not in node.environment.tests:  # pyright: ignore
                yield f"line {node.lineno}: there is no test {node.name}"
            case nodes.Const() if type(node.value) is int and abs(node.value) > LARGEST_NUMBER:
                yield f"line {node.lineno}: a number of more than 64 bits"
            case _:
                pass


class Code(CodeGenerator):
    """jinja2's compiler, but that every block pays when it is entered, and that what it would leave to Python's own
    operators (comparisons, slices, `~`, dictionaries, printing) asks the `Sandbox`."""

    def blockvisit(self, nodes: Iterable[nodes.Node], frame: Frame) -> None:
        found = list(nodes)
        self.writeline(f"environment.spend({weight(found)})")
        super().blockvisit(found, frame)

    def visit_For(self, node: nodes.For, frame: Frame) -> None:
        if node.test is not None:  # it runs where the body does not
            node.test = nodes.And(payment([node.test]), node.test)
        super().visit_For(node, frame)

    def macro_body(self, node: nodes.Macro | nodes.CallBlock, frame: Frame) -> Any:
        if node.defaults:  # they run in each call
            node.body = [nodes.ExprStmt(payment(node.defaults)).set_lineno(node.lineno), *node.body]
        return super().macro_body(node, frame)

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        if isinstance(node, nodes.TemplateData):
            return node.data
        raise nodes.Impossible

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        self.write("environment.printed(")

    def _output_child_post(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        self.write(")")

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self.write("environment.concat((")
        for part in node.nodes:
            self.write("environment.printed(")
            self.visit(part, frame)
            self.write("), ")
        self.write("))")

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:
        self.write("environment.compared(")
        self.visit(node.expr, frame)
        for other in node.ops:
            self.write(f", {other.op!r}, ")
            self.visit(other.expr, frame)
        self.write(")")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        if not isinstance(node.arg, nodes.Slice):
            return super().visit_Getitem(node, frame)
        self.write("environment.sliced(")
        self.visit(node.node, frame)
        for part in (node.arg.start, node.arg.stop, node.arg.step):
            self.write(", ")
            self.write("None") if part is None else self.visit(part, frame)
        self.write(")")

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:
        self.write("environment.mapped((")
        for pair in node.items:
            self.write("(")
            self.visit(pair.key, frame)
            self.write(", ")
            self.visit(pair.value, frame)
            self.write("), ")
        self.write("))")

    def visit_Filter(self, node: nodes.Filter, frame: Frame) -> None:
        self._ask("call_filter", node, frame)

    def visit_Test(self, node: nodes.Test, frame: Frame) -> None:
        self._ask("call_test", node, frame)

    def _ask(self, asked: str, node: Any, frame: Frame) -> None:
        self.write(f"environment.{asked}({node.name!r}, ")
        if node.node is None:  # {% filter %}
            self.write(f"concat({frame.buffer})")
        else:
            self.visit(node.node, frame)
        self.write(", (")
        for argument in node.args:
            self.visit(argument, frame)
            self.write(", ")
        self.write("), {")
        for keyword in node.kwargs:
            self.write(f"{keyword.key!r}: ")
            self.visit(keyword.value, frame)
            self.write(", ")
        self.write("}, context)")


# ---- while it runs ----


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of one rendering: `left` are the steps that it may still take."""

    code_generator_class = Code
    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})
    left, depth = 0, 0

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,  # nothing is computed before it is paid for
            autoescape=False,
            extensions=[Generation, "jinja2.ext.loopcontrols"],
        )
        self.globals.clear()
        self.filters = {name: DEFAULT_FILTERS.get(name, str) for name in (*FILTERS, *OWN)}

    def functions(self) -> dict[str, Any]:
        hint = "strftime_now: a chat template has no clock here, since a text must not depend on when it is made; "
        return {
            "range": self.numbers,
            "dict": self.mapping,
            "namespace": self.namespace,
            "raise_exception": self.refuse,
            "strftime_now": Undefined(f"{hint}write the date into a message"),
        }

    # ---- paying ----

    def spend(self, steps: int) -> bool:
        self.left -= steps
        if self.left < 0:
            raise OverflowError("is too much work")
        return True

    def read(self, *values: Any, printed: bool = False) -> int:
        """Pay for all that is in values, as often as it is in them. Gives the marks of all their texts.

        Raises ValueError for what is nested too deeply, and with `printed` for what is no plain value.
        """
        found, level = 0, [*values]
        self.spend(len(level))
        for _ in range(DEEPEST_VALUE):
            inner = []
            for value in level:
                if isinstance(value, str):
                    self.spend(len(value) // CHARACTERS)
                    found |= all_marks(value)
                elif isinstance(value, dict):
                    self.spend(2 * len(value))
                    inner += [*value, *value.values()]
                elif isinstance(value, LISTS):
                    self.spend(len(value))
                    inner += [] if isinstance(value, range) else value
                elif printed and not (value is None or isinstance(value, int | float | Undefined)):
                    raise TypeError(f"a {type(value).__name__} is no text, number or list")
            if not inner:
                return found
            level = inner
        raise ValueError(f"a value is nested more than {DEEPEST_VALUE} deep")

    def bounded(self, value: Any) -> Any:
        """A result, paid for where it is one: generators are run to their end."""
        if isinstance(value, GeneratorType):
            made = Stream()
            for item in value:
                self.spend(1)
                made.append(item)
            return made
        if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
            raise OverflowError("a number of more than 64 bits")
        if isinstance(value, str):
            self.spend(1 + len(value) // CHARACTERS)
        elif isinstance(value, list | tuple):
            self.spend(1 + len(value))
        return value

    # ---- texts ----

    def concat(self, pieces: Iterable[str]) -> str:  # pyright: ignore
        found = list(pieces)
        self.spend(1 + len(found) + sum(map(len, found)) // CHARACTERS)
        text = "".join(found)
        return Marked(text, b"".join(map(marks_of, found))) if any(isinstance(x, Marked) for x in found) else text

    def printed(self, value: Any) -> str:
        """The text that `{{ value }}` prints."""
        if isinstance(value, str):
            return value
        marks = self.read(value, printed=True)
        return spread(self.bounded(str(value)), marks)

    def answered(self, caller: Any) -> str:
        text = caller()
        return Marked(text, marks_of(text).translate(ANSWERED))

    def of_text(self, name: str, text: str, /, *args: Any, **kwargs: Any) -> Any:
        """A method of a text."""
        match name:
            case "replace":
                return self.filter_replace(text, *args, **kwargs)
            case "join":
                return self.text_join(text, *args, **kwargs)
            case "format":
                return self.text_format(text, *args, **kwargs)
        values = *args, *kwargs.values()
        self.read(text, *values)
        if name in SLOW:
            self.spend(len(text) * max([len(value) for value in values if isinstance(value, str)], default=1) // 16)
        made = getattr(str, name)(text, *args, **kwargs)
        if name in CASES:
            return recased(text, made)
        if name in PARTS and isinstance(made, str):
            at = text.rfind(made) if name in {"lstrip", "removeprefix"} else text.find(made)
            return text[at : at + len(made)]
        if name in PARTS:
            cut = next((value for value in values if isinstance(value, str)), "") if "split" in name else ""
            return self.bounded(located(text, made, len(cut)))
        return made

    def text_join(self, text: str, items: Iterable[str]) -> str:
        """The items with the text between them."""
        self.flat(items)
        found = list(items)
        self.spend(len(found) * (1 + len(text) // CHARACTERS))
        return self.concat([piece for item in found for piece in (text, item)][1:])

    def filter_join(self, items: Any, d: Any = "", attribute: str | int | None = None) -> str:
        self.flat(items)
        if attribute is not None:
            items = map(make_attrgetter(self, attribute), items)
        return self.text_join(self.printed(d), [self.printed(item) for item in items])

    def filter_replace(self, value: Any, old: Any, new: Any, count: int | None = None) -> str:
        text, old, new = self.printed(value), self.printed(old), self.printed(new)
        marks, most = self.read(text, old, new), -1 if count is None else count
        self.spend(text.count(old) * (1 + len(new) // CHARACTERS))
        if not old:
            return spread(self.bounded(str.replace(text, old, new, most)), marks)
        return self.text_join(new, located(text, str.split(text, old, most), len(old)))

    def filter_trim(self, value: Any, chars: str | None = None) -> str:
        return self.of_text("strip", self.printed(value), chars)

    def filter_title(self, value: Any) -> str:
        text = self.printed(value)
        self.spend(len(text))  # every letter may be a word
        return recased(text, DEFAULT_FILTERS["title"](str.__str__(text)))

    def filter_string(self, value: Any) -> str:
        return self.printed(value)

    filter_safe = filter_string  # nothing is escaped here

    def filter_reverse(self, value: Any) -> Any:
        self.flat(value)
        return value[::-1] if isinstance(value, str) else Stream(reversed(list(value)))

    def filter_indent(self, value: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
        text, by = self.printed(value), width if isinstance(width, int) else len(width)
        if by > WIDEST:
            raise OverflowError(f"indent by {by}, and {WIDEST} is the most")
        lines = len(text.splitlines())
        self.spend(lines * (1 + by // CHARACTERS))
        return spread(self.bounded(DEFAULT_FILTERS["indent"](str(text), width, first, blank)), self.read(text, width))

    def filter_tojson(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: Sequence[str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        before, by = self.left, 0 if indent is None else indent
        marks = self.read(value, printed=True)
        if not isinstance(by, int) or by > 8 or any(len(text) > 8 for text in separators or ()):
            raise OverflowError("tojson with an indent or a separator of more than 8 characters")
        self.spend((before - self.left) * (1 + by * DEEPEST_VALUE // CHARACTERS))
        pair = None if separators is None else (separators[0], separators[1])
        made = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=pair, sort_keys=sort_keys)
        return spread(self.bounded(made), marks)

    def filter_format(self, value: Any, /, *args: Any, **kwargs: Any) -> str:
        if args and kwargs:
            raise TypeError("format takes arguments with names or without")
        return self.percent(self.printed(value), kwargs or args)

    def percent(self, text: str, values: Any) -> str:
        """text % values."""
        pieces, at, named = [], 0, values if isinstance(values, dict) else {}
        rest = [*values] if isinstance(values, tuple) else [values]
        for found in PERCENT.finditer(text):
            name, flags, kind = found.groups()
            pieces += [text[at : found.start()], "%"]
            at = found.end()
            if kind != "%":
                value = named[name] if name else rest.pop(0) if rest else self.undefined("% needs more values")
                pieces[-1] = self.shaped(value, f"%{flags}{kind}" if flags or kind != "s" else "")
        pieces.append(text[at:])
        if any("%" in piece for piece in pieces[::2]) or (rest and not isinstance(values, dict)):
            raise TypeError("% fills in as many values as the text has of %s, %d, %i, %f, %e, %g and %x")
        return self.concat(pieces)

    def text_format(self, text: str, /, *args: Any, **kwargs: Any) -> str:
        """text.format(...), with fields that are numbers or names."""
        pieces, count = [], 0
        marks = self.read(text)
        for literal, field, spec, conversion in Formatter().parse(str(text)):
            pieces.append(spread(literal, marks))
            if field is None:
                continue
            if conversion or "{" in (spec or "") or not (field == "" or field.isdigit() or field.isidentifier()):
                raise TypeError("format fills fields like {}, {0}, {name} and {:.2f}")
            value: Any = kwargs[field] if field.isidentifier() else args[int(field or count)]
            count += field == ""
            pieces.append(self.shaped(value, spec or ""))
        return self.concat(pieces)

    def shaped(self, value: Any, spec: str) -> str:
        """A value in the shape that `%5d` or `5d` tells."""
        if any(len(number) > 3 or int(number) > WIDEST for number in re.findall(r"\d+", spec)):
            raise OverflowError(f"a text filled up to more than {WIDEST} characters")
        if not spec:
            return self.printed(value)
        marks = self.read(value, printed=True)
        return spread(self.bounded(spec % (value,) if spec[0] == "%" else format(value, spec)), marks)

    # ---- values ----

    def flat(self, value: Any) -> None:
        """Pay for the elements of something, and refuse what cannot tell how many."""
        if isinstance(value, SIZED):
            self.spend(1 + len(value))
        elif not isinstance(value, Undefined):
            raise TypeError(f"a {type(value).__name__} is no list")

    def numbers(self, *args: int) -> range:
        made = range(*args)
        if len(made) > LARGEST_RANGE:
            raise OverflowError(f"a range of more than {LARGEST_RANGE:,} numbers")
        return made

    def mapping(self, /, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        self.read(*args, printed=True)
        self.spend(len(kwargs))
        return dict(*args, **kwargs)

    def mapped(self, pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
        self.read(*[key for key, _ in pairs])
        return dict(pairs)

    def namespace(self, /, *args: Any, **kwargs: Any) -> Namespace:
        return Namespace(self.mapping(*args, **kwargs))

    def refuse(self, message: Any) -> None:
        raise Refusal(self.printed(message))

    def sliced(self, value: Any, start: Any, stop: Any, step: Any) -> Any:
        self.spend(1)
        if not isinstance(value, str | list | tuple | range | Undefined):
            raise TypeError(f"a {type(value).__name__} cannot be cut")
        return self.bounded(value[start:stop:step])

    def compared(self, left: Any, /, *others: Any) -> bool:
        """left < a < b, as ("lt", a, "lt", b)."""
        for kind, right in zip(others[::2], others[1::2], strict=True):
            if kind not in {"in", "notin"}:
                self.read(left, right)
            elif isinstance(right, dict | Undefined):
                self.read(left)
            else:
                self.read(left, right, printed=True)
            if not COMPARE[kind](left, right):
                return False
            left = right
        return True

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        texts = isinstance(left, str) + 2 * isinstance(right, str)
        if operator == "+" and texts == 3:
            return self.concat((left, right))
        if operator == "%" and texts % 2:
            return self.percent(left, right)
        if operator == "*" and not (isinstance(left, int | float) and isinstance(right, int | float)):
            many, times = (right, left) if isinstance(left, int) else (left, right)
            if isinstance(many, SIZED) and isinstance(times, int):
                self.spend(max(times, 0) * (1 + len(many) // (CHARACTERS if isinstance(many, str) else 1)))
            if isinstance(many, Marked) and isinstance(times, int):
                return Marked(str.__mul__(many, times), many.marks * times)
        if operator == "**" and isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > 127:
            raise OverflowError("a number of more than 64 bits")
        if operator == "+" and isinstance(left, list | tuple) and isinstance(right, list | tuple):
            self.spend(len(left) + len(right))
        return self.bounded(super().call_binop(context, operator, left, right))

    # ---- attributes, calls ----

    def getattr(self, obj: Any, attribute: str) -> Any:
        self.spend(1)
        try:
            return self.attribute(obj, attribute)
        except LookupError:
            pass
        if isinstance(obj, dict) and attribute in obj:
            return obj[attribute]
        return self.missing(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        self.read(argument)
        try:
            if isinstance(obj, str | dict | list | tuple | range | Undefined):
                return obj[argument]
        except (TypeError, LookupError):
            pass
        try:
            return self.attribute(obj, argument)
        except LookupError:
            return self.missing(obj, argument)

    def attribute(self, obj: Any, name: Any) -> Any:
        """One of those that are named above. Raises LookupError for any other."""
        if not isinstance(name, str) or name.startswith("_"):
            raise LookupError(name)
        if isinstance(obj, Undefined):
            return getattr(obj, name)  # raises, with what is undefined
        if isinstance(obj, Namespace):
            try:
                return getattr(obj, name)
            except AttributeError:
                raise LookupError(name) from None
        if isinstance(obj, LoopContext):
            if name in LOOP:
                return getattr(obj, name)
            if name in {"cycle", "changed"}:
                return partial(self.of_value, getattr(obj, name))
        if isinstance(obj, str) and name in METHODS[str]:
            return partial(self.of_text, name, obj)
        if any(isinstance(obj, kind) and name in METHODS[kind] for kind in (dict, list, tuple)):
            return partial(self.of_value, getattr(obj, name))
        raise LookupError(name)

    def of_value(self, method: Any, /, *args: Any) -> Any:
        """A method of a list, a dictionary or a loop."""
        self.read(*args)
        if method.__name__ in {"index", "count"}:
            self.read(method.__self__)
        return method(*args)

    def missing(self, obj: Any, name: Any) -> Undefined:
        if isinstance(name, str) and (name.startswith("_") or (not isinstance(obj, dict) and name in dir(type(obj)))):
            raise TypeError(f"{name} of a {type(obj).__name__} is not served")
        return self.undefined(obj=obj, name=name)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        if self.depth >= DEEPEST_CALL:
            raise OverflowError(f"macros that call each other more than {DEEPEST_CALL} deep")
        self.depth += 1
        try:
            return self.bounded(super().call(context, obj, *args, **kwargs))
        finally:
            self.depth -= 1

    def call_filter(
        self, name: str, value: Any, args: Any = None, kwargs: Any = None, context: Any = None, eval_ctx: Any = None
    ) -> Any:
        args, kwargs = args or (), kwargs or {}
        if name in {"upper", "lower", "capitalize"}:
            return self.of_text(name, self.printed(value), *args, **kwargs)
        if name in OWN:
            return getattr(self, f"filter_{name}")(value, *args, **kwargs)
        cost = FILTERS.get(name, FREE)
        if cost == FLAT:
            self.flat(value)
        elif cost:
            before = self.left
            self.read(value, *args, printed=True)
            self.spend((before - self.left) * (cost - 1))
        if name == "round" and any(abs(number) > 20 for number in (*args, *kwargs.values()) if isinstance(number, int)):
            raise OverflowError("round to more than 20 digits")
        return self.bounded(super().call_filter(name, value, args, kwargs, context, eval_ctx))

    def call_test(
        self, name: str, value: Any, args: Any = None, kwargs: Any = None, context: Any = None, eval_ctx: Any = None
    ) -> Any:
        if name not in SHALLOW_TESTS:
            self.read(value, *(args or ()), printed=True)
        return super().call_test(name, value, args, kwargs, context, eval_ctx)


# ---- a template ----

FILE = "<chat template>"


class Template:
    """A chat template, compiled. marks_answers: whether it has {% generation %} blocks."""

    def __init__(self, source: str) -> None:
        """Raises ValueError with every tag, filter and test that is not served, or where the syntax is wrong."""
        if len(source) > LONGEST_TEMPLATE:
            told = f"has {len(source):,} characters, and {LONGEST_TEMPLATE:,} are the most"
            raise ValueError(f"the chat template {told}")
        self._sandbox = Sandbox()
        try:
            tree = self._sandbox.parse(source)
            faults = list(faults_of(tree))
            if not faults:
                self.marks_answers = any(each.name == "answered" for each in tree.find_all(nodes.EnvironmentAttribute))
                self._code = self._sandbox.compile(tree, filename=FILE)
        except TemplateSyntaxError as error:
            raise ValueError(f"the chat template is wrong on line {error.lineno}: {error.message}") from None
        except Exception as error:  # Python's own limits: recursion, nested blocks, digits of a number
            raise ValueError(f"the chat template is too deep or too large: {error}") from None
        if faults:
            raise ValueError("\n  ".join(["the chat template asks for what is not served:", *faults]))

    def render(self, **given: Any) -> str:
        """The text that the template makes of texts, numbers, lists and dictionaries; `Marked` where it has marks.

        Raises ValueError: with the template's words where it refuses, with its line where it fails or does too much.
        """
        values = {name: taken(value, name) for name, value in given.items()}
        sandbox = self._sandbox.overlay()
        sandbox.left = steps = WORK + PER_CHARACTER * sum(map(size, values.values()))
        compiled = Compiled.from_code(sandbox, self._code, {})
        context = compiled.new_context({**sandbox.functions(), **values})
        try:
            return sandbox.concat(compiled.root_render_func(context))
        except Refusal as error:
            raise ValueError(f"the chat template refuses: {str(error)[:500]}") from None
        except Exception as error:
            told = f"takes more than {steps:,} steps" if sandbox.left < 0 else f"fails: {str(error)[:500]}"
            raise ValueError(f"the chat template, line {line_of(error, compiled)}, {told}") from error


def taken(value: Any, where: str, depth: int = 0) -> Any:
    """A copy in plain lists and dictionaries, so that a template gets no other object and none of the caller's."""
    if value is None or type(value) in (str, Marked, bool, int, float):
        return value
    if depth == DEEPEST_GIVEN:
        raise ValueError(f"{where} is nested more than {DEEPEST_GIVEN} deep")
    if isinstance(value, list | tuple):
        return [taken(inner, f"{where}[{place}]", depth + 1) for place, inner in enumerate(value)]
    if isinstance(value, dict):
        return {taken(key, where, depth + 1): taken(inner, f"{where}.{key}", depth + 1) for key, inner in value.items()}
    raise ValueError(f"{where} is a {type(value).__name__}; a template takes texts, numbers, lists and dictionaries")


def size(value: Any) -> int:
    """Characters of all texts in what was taken, and 16 for each value."""
    if isinstance(value, str):
        return 16 + len(value)
    if isinstance(value, dict):
        return 16 + sum(size(inner) for pair in value.items() for inner in pair)
    return 16 + sum(map(size, value)) if isinstance(value, list) else 16


def line_of(error: Exception, compiled: Compiled) -> int:
    line, trace = 1, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILE:
            line = compiled.get_corresponding_lineno(trace.tb_lineno)
        trace = trace.tb_next
    return line
