"""Chats: messages to token ids, and which of them are an answer's, for supervised tuning and for generation.

    template(messages) -> text -> ids, and a mask that is true where the assistant speaks

A control token is one where the template writes it. In what a message says the same characters are text, whatever a
template does with them: `headway.text.sandbox` knows of each character where it comes from.

An answer is what stands in the template's {% generation %} blocks. Where it has none, it is what a message adds to the
rendering of those before it with the generation prompt. It ends with the control token behind its words, and with EOS
where the template writes none there. Texts are cut into pieces between control tokens and where an answer begins and
ends, so the ids of a prompt are the first ids of the chat that goes on from it. Twins: tests/test_chat.py.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field

from headway.strict import Config, ConfigError, validate
from headway.text.sandbox import ANSWER, GIVEN, Marked, Template, marks_of
from headway.text.tokenizer import BOS, CONTROLS, EOS, Tokenizer


def whole(content: str) -> str:
    try:
        content.encode()
    except UnicodeEncodeError as error:
        told = f"character {error.start} is {content[error.start]!a}, half a surrogate pair"
        raise ValueError(f"{told}, which no UTF-8 can hold: remove it") from None
    return content


class Message(Config):
    """What one side says. Its content is text and nothing else, whatever is in it."""

    role: Literal["system", "user", "assistant", "tool"]
    content: Annotated[str, AfterValidator(whole)]


Token = Annotated[str, Field(min_length=1)]


class Messages(Config):
    messages: Annotated[tuple[Message, ...], Field(strict=False, min_length=1)]


class ChatIds(NamedTuple):
    """ids of a chat, and for each whether it is part of an answer, so that the loss counts it."""

    ids: list[int]
    mask: list[bool]


class Span(NamedTuple):
    """Characters of an answer, and whether EOS is to stand behind them."""

    start: int
    stop: int
    ends: bool


class Chat(Config):
    """A template and the control tokens that it writes.

    template: jinja2, as in Hugging Face's `chat_template`. It reads `messages`, `add_generation_prompt`, `bos_token`
    and `eos_token`. controls: control tokens besides those two: atoms of the vocabulary.
    """

    template: str
    controls: Annotated[tuple[Token, ...], Field(strict=False)] = ()
    bos_token: Token = CONTROLS[BOS]
    eos_token: Token = CONTROLS[EOS]

    @cached_property
    def compiled(self) -> Template:
        """Raises ValueError for a template that is wrong, or that asks for what is not served."""
        return Template(self.template)

    def render(self, messages: Sequence[Message | Mapping[str, str]], add_generation_prompt: bool = False) -> str:
        """The text of a chat, with the beginning of an answer where it is asked for.

        Raises ValueError: every fault of the messages, or the template's own words where it refuses them.
        """
        return plain(self._text(checked(messages), add_generation_prompt))

    def encode(
        self,
        messages: Sequence[Message | Mapping[str, str]],
        tokenizer: Tokenizer,
        add_generation_prompt: bool = False,
    ) -> ChatIds:
        """Ids of a chat, and a mask over its answers: their tokens and what ends them.

        Raises ValueError as `render` does; where the vocabulary lacks a control token; and where the answers of a
        template without {% generation %} cannot be told, since what was said changes with what is said next.
        """
        messages, numbers = checked(messages), self._numbers(tokenizer)
        text = self._text(messages, add_generation_prompt)
        controls = self._controls(text)
        spans = self._answers(messages, text, controls)
        places = {0, len(text), *(place for pair in controls for place in pair)}
        places |= {place for span in spans for place in span[:2]}
        pieces = [(start, stop, plain(text[start:stop])) for start, stop in pairwise(sorted(places))]
        if halved := set(controls) - {piece[:2] for piece in pieces}:
            told = ", ".join(sorted({plain(text[start:stop]) for start, stop in halved}))
            raise ValueError(f"the chat template has {told} half in an answer and half out of it: put all of it inside")
        single = set(controls)
        encoded = iter(tokenizer.encode_batch([piece[2] for piece in pieces if piece[:2] not in single]))
        begun, ended = {span.start: span.stop for span in spans}, {span.stop for span in spans if span.ends}
        ids, mask, until = [], [], 0
        for start, stop, piece in pieces:
            until = begun.get(start, until)
            found = [numbers[piece]] if (start, stop) in single else next(encoded)
            ids += found
            mask += [start < until] * len(found)
            if stop in ended:
                ids.append(numbers[self.eos_token])
                mask.append(True)
        return ChatIds(ids, mask)

    def stop_id(self, tokenizer: Tokenizer) -> int:
        """The id that ends an answer: where generation is done."""
        found = self.encode([Message(role="user", content="?"), Message(role="assistant", content="!")], tokenizer)
        return next(number for number, counts in zip(found.ids[::-1], found.mask[::-1], strict=True) if counts)

    def _text(self, messages: Sequence[Message], add_generation_prompt: bool) -> str:
        given = [{"role": each.role, "content": spoken(each.content)} for each in messages]
        return self.compiled.render(
            messages=given,
            add_generation_prompt=add_generation_prompt,
            bos_token=self.bos_token,
            eos_token=self.eos_token,
        )

    def _numbers(self, tokenizer: Tokenizer) -> dict[str, int]:
        """The id of each control token. One that is no atom may be what the vocabulary calls by another name."""
        found = {self.bos_token: BOS, self.eos_token: EOS, CONTROLS[BOS]: BOS, CONTROLS[EOS]: EOS}
        found |= {name: tokenizer.atom(name) for name in tokenizer.atoms}
        if missing := [name for name in self.controls if name not in found]:
            told = f"the vocabulary has no {', '.join(missing)}, which the chat template writes"
            remedy = "train it with them (tokenizer.tags, without < and >), or Tokenizer.read it with them for atoms"
            raise ValueError(f"{told}: {remedy}")
        return {name: found[name] for name in (self.bos_token, self.eos_token, *self.controls)}

    def _controls(self, text: str) -> list[tuple[int, int]]:
        """Where the template wrote a control token: no character of it comes from a message."""
        names = sorted({self.bos_token, self.eos_token, *self.controls}, key=len, reverse=True)
        pattern = re.compile("|".join(map(re.escape, names)))
        return [found.span() for run in OWN.finditer(marks_of(text)) for found in pattern.finditer(text, *run.span())]

    def _answers(self, messages: Sequence[Message], text: str, controls: Sequence[tuple[int, int]]) -> list[Span]:
        if not self.compiled.marks_answers:
            return [closed(text, *found, controls) for found in self._added(messages, text)]
        answers = [number for number, message in enumerate(messages) if message.role == "assistant"]
        found = [run.span() for run in SAID.finditer(marks_of(text))]
        if answers and not found:
            raise ValueError("the chat template has {% generation %}, but none of these messages is in it")
        if answers and {stop for _, stop in found} & {start for start, _ in controls}:
            # Does the control token behind a block end the answer, or begin what comes next? Alone, only the first.
            alone = self._text(messages[: answers[0] + 1], add_generation_prompt=False)
            if {run.end() for run in SAID.finditer(marks_of(alone))} & {start for start, _ in self._controls(alone)}:
                ends = dict(controls)
                found = [(start, ends.get(stop, stop)) for start, stop in found]
        return [closed(text, *pair, controls) for pair in found]

    def _added(self, messages: Sequence[Message], text: str) -> Iterator[tuple[int, int]]:
        """What each answer adds to the rendering of the messages before it."""
        for number, message in enumerate(messages):
            if message.role != "assistant":
                continue
            where = f"messages[{number}]: its answer cannot be told from the rest"
            remedy = "Put {% generation %} ... {% endgeneration %} around answers in the template"
            try:
                before = self._text(messages[:number], add_generation_prompt=True)
                after = self._text(messages[: number + 1], add_generation_prompt=False)
            except ValueError as error:
                raise ValueError(f"{where}; without the messages behind it, {error}. {remedy}") from error
            if not (after.startswith(before) and text.startswith(after)):
                told = "the template writes the messages before it otherwise when more follow"
                raise ValueError(f"{where}: {told}. {remedy}")
            yield len(before), len(after)


OWN, SAID = re.compile(rb"[^\x01\x03]+"), re.compile(rb"[\x02\x03]+")
"""Runs of characters, by their marks: of the template's own, and in an answer."""


def plain(text: str) -> str:
    """The same text without marks."""
    return str.__str__(text)


def spoken(content: str) -> Marked:
    return Marked(content, bytes([GIVEN]) * len(content))


def checked(messages: Sequence[Message | Mapping[str, str]]) -> tuple[Message, ...]:
    """Messages. Raises ConfigError, a ValueError, with all their faults."""
    found, faults = validate(Messages, {"messages": messages})
    if found is None:
        raise ConfigError(faults, "the chat")
    return found.messages


def closed(text: str, start: int, stop: int, controls: Sequence[tuple[int, int]]) -> Span:
    """An answer up to the last control token behind its words, or up to its last word where there is none."""
    marks = marks_of(text)
    said = max(start, *(marks.rfind(mark, start, stop) + 1 for mark in (GIVEN, GIVEN | ANSWER)))
    ends = [end for begin, end in controls if said <= begin and end <= stop]
    if ends:
        return Span(start, ends[-1], ends=False)
    return Span(start, max(said, start + len(text[start:stop].rstrip())), ends=True)


CHATML = r"""
{%- for message in messages %}
    {{- "<|im_start|>" + message.role + "\n" }}
    {%- if message.role == "assistant" %}
        {%- generation %}{{ message.content + "<|im_end|>" }}{% endgeneration %}
    {%- else %}
        {{- message.content + "<|im_end|>" }}
    {%- endif %}
    {{- "\n" }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- "<|im_start|>assistant\n" }}
{%- endif %}"""

INST = r"""
{%- set now = namespace(turn="user", system="") %}
{%- for message in messages %}
    {%- if message.role == "system" and loop.first %}
        {%- set now.system = "<<SYS>>\n" + message.content + "\n<</SYS>>\n\n" %}
    {%- elif message.role != now.turn %}
        {{- raise_exception("user and assistant must take turns, after one system message at most") }}
    {%- elif message.role == "user" %}
        {{- bos_token + "[INST] " + now.system + message.content | trim + " [/INST]" }}
        {%- set now.turn = "assistant" %}
        {%- set now.system = "" %}
    {%- else %}
        {%- generation %}{{ " " + message.content | trim + " " + eos_token }}{% endgeneration %}
        {%- set now.turn = "user" %}
    {%- endif %}
{%- endfor %}
{%- if now.system %}
    {{- raise_exception("a system message needs one of the user behind it") }}
{%- endif %}"""

PLAIN = r"""
{%- for message in messages %}
    {{- message.role | capitalize + ":" }}
    {%- if message.role == "assistant" %}
        {%- generation %}{{ " " + message.content }}{% endgeneration %}
    {%- else %}
        {{- " " + message.content }}
    {%- endif %}
    {{- "\n" }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- "Assistant:" }}
{%- endif %}"""

CHATS = {
    "chatml": Chat(template=CHATML, controls=("<|im_start|>", "<|im_end|>")),
    "inst": Chat(template=INST),
    "plain": Chat(template=PLAIN),
}
"""By name. chatml is OpenAI's form, inst that of Llama 2; plain needs nothing but EOS of a vocabulary."""
