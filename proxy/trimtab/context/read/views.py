"""A message as the planner sees it: its role, its size, its tool calls. Never its text.

A view is made once for each distinct message and remembered by the message's bytes, so a history seen a step ago
costs one hash and one lookup a message. What is remembered holds numbers and tool-call ids only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec
from msgspec import Raw

from trimtab.context.estimate.parts import part_tokens
from trimtab.context.estimate.tokens import bytes_tokens, text_tokens
from trimtab.context.read.digest import digest
from trimtab.context.texts import PLACEHOLDER

# Tokens a chat template adds around each message; OpenAI's cookbook on counting tokens says 3 and 1 for a name.
MESSAGE_OVERHEAD = 4
PLACEHOLDER_TOKENS = text_tokens(PLACEHOLDER)

Shape = Literal["text", "parts", "none", "opaque"]


class Call(msgspec.Struct, frozen=True, gc=False):
    """One tool call an assistant message declares; `id` is empty for the legacy `function_call`."""

    id: str
    name: str


class View(msgspec.Struct, frozen=True, gc=False):
    """What planning needs of one message. Sizes are estimated o200k tokens, `chars` are characters of text."""

    role: str
    tokens: int  # the whole message, overhead included
    text_tokens: int = 0  # of its text content: what truncating, clearing or squeezing can win
    chars: int = 0
    shape: Shape = "none"
    calls: tuple[Call, ...] = ()
    call_tokens: int = 0  # of the arguments of its calls
    answers: str | None = None  # id of the call this message is the result of; "" for a legacy function result
    pinned: bool = False
    marked: bool = False  # it has the `pinned` mark, true or false, which no upstream knows
    cleared: int = 0  # tokens the message has once its content is the placeholder
    digest: bytes = b""  # of the message's bytes

    @property
    def is_result(self) -> bool:
        return self.answers is not None


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = ""


class _Call(msgspec.Struct):
    id: Any = None
    function: _Function | None = None
    custom: dict[str, Any] | None = None


class _Message(msgspec.Struct):
    role: str
    content: str | list[Any] | None = None
    name: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: Any = None
    function_call: _Function | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    thinking_blocks: Any = None
    refusal: Any = None
    pinned: Any = None


class _Outline(msgspec.Struct):
    """What is read of a message in which some field has a type not known here."""

    role: Any = None
    tool_calls: Any = None
    tool_call_id: Any = None
    pinned: Any = None


_decode = msgspec.json.Decoder(_Message).decode
_outline = msgspec.json.Decoder(_Outline).decode
_TEXT_PARTS = ("text", "input_text", "output_text")


def text_of(part: Any) -> str | None:
    """The text of a content part, or None for images, audio, files and whatever else is not text."""
    if isinstance(part, dict) and part.get("type") in _TEXT_PARTS and isinstance(part.get("text"), str):
        return str(part["text"])
    return None


def view(raw: bytes | Raw) -> View:
    """Read one message. Never raises: what is not a message of a known form is counted by its bytes, as opaque; its
    text is never changed, but its role and its place in a tool pair are known where they can be read."""
    try:
        message = _decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return _opaque(bytes(raw))
    content = message.content
    shape: Shape
    if isinstance(content, str):  # by far the most
        shape, chars, text, rest = "text", len(content), text_tokens(content), 0
    else:
        shape, chars, text, rest = _content(content)
    calls: tuple[Call, ...] = ()
    arguments = named = 0
    if message.tool_calls or message.function_call:
        calls, arguments = _calls(message), _arguments(message)
        named = sum([_name_tokens(call.name) for call in calls])
    said = _size(_reasoning(message))
    if message.name or message.refusal:
        said += _size(message.name) + _size(message.refusal)
    return View(
        role=message.role,
        tokens=text + rest + arguments + named + said + MESSAGE_OVERHEAD,
        text_tokens=text,
        chars=chars,
        shape=shape,
        calls=calls,
        call_tokens=arguments,
        answers=_answers(message),
        pinned=message.pinned is True,
        marked=isinstance(message.pinned, bool),
        cleared=named + said + arguments + PLACEHOLDER_TOKENS + MESSAGE_OVERHEAD,
        digest=digest(raw),
    )


def _opaque(raw: bytes) -> View:
    size = bytes_tokens(raw) + MESSAGE_OVERHEAD
    try:
        seen = _outline(raw)
    except (msgspec.DecodeError, RecursionError):
        seen = _Outline()
    declared = seen.tool_calls if isinstance(seen.tool_calls, list) else []
    ids = [_id(call.get("id")) for call in declared if isinstance(call, dict)]
    return View(
        role=seen.role if isinstance(seen.role, str) else "",
        tokens=size,
        shape="opaque",
        calls=tuple(Call(id, "") for id in ids),
        answers=_id(seen.tool_call_id) if seen.role in ("tool", "function") else None,
        pinned=seen.pinned is True,
        marked=isinstance(seen.pinned, bool),
        cleared=size,
        digest=digest(raw),
    )


def _reasoning(message: _Message) -> Any:
    """The same thoughts stand in one field or another; where they stand in two, they are the same ones."""
    text = message.reasoning_content or message.reasoning
    return text or message.reasoning_details or message.thinking_blocks


def _content(content: list[Any] | None) -> tuple[Shape, int, int, int]:
    """Shape, characters of text, tokens of text, tokens of the other parts."""
    if content is None:
        return "none", 0, 0, 0
    texts = [text_of(part) for part in content]
    said = [text for text in texts if text is not None]
    rest = sum(part_tokens(part) for part, text in zip(content, texts, strict=True) if text is None)
    return "parts", sum(map(len, said)), sum(map(text_tokens, said)), rest


def _calls(message: _Message) -> tuple[Call, ...]:
    made = [
        Call(_id(c.id), (c.function.name or "") if c.function else str((c.custom or {}).get("name", "")))
        for c in message.tool_calls or ()
    ]
    legacy = message.function_call
    if legacy and (legacy.name or not made):  # an empty one beside the others is what some clients write for none
        made.append(Call("", legacy.name or ""))
    return tuple(made)


def _id(value: Any) -> str:
    """The id of a call; some clients count their calls."""
    return value if isinstance(value, str) else "" if value is None else str(value)


def _arguments(message: _Message) -> int:
    """Tokens of what the calls are given."""
    given = [call.function.arguments if call.function else call.custom for call in message.tool_calls or ()]
    if message.function_call:
        given.append(message.function_call.arguments)
    return sum(map(_size, given))


def _answers(message: _Message) -> str | None:
    if message.role == "tool":
        return _id(message.tool_call_id)
    return "" if message.role == "function" else None


def _name_tokens(name: str) -> int:
    """Tokens of a tool's name: an agent has a few of them and calls them again and again."""
    return _short_name_tokens(name) if len(name) <= _SHORT_NAME else text_tokens(name)


_SHORT_NAME = 64  # characters; the most OpenAI allows
_short_name_tokens = lru_cache(maxsize=4_096)(text_tokens)


def _size(value: Any) -> int:
    if not value:
        return 0
    if isinstance(value, str):
        return text_tokens(value)
    return bytes_tokens(msgspec.json.encode(value))


def _spaced(raw: bytes) -> bytes:
    """Compact JSON with a space after each colon and comma, as chat templates print tools: the `tojson` filter of
    Hugging Face's templates writes them so, and a model reads what the template wrote."""
    return raw if b'": ' in raw else raw.replace(b'":', b'": ').replace(b',"', b', "')


class Memo:
    """What was found out, by digest, bounded. Two generations instead of an ordered map: when the young one is full
    it becomes the old one, and what is still in use moves over on its next hit; a hit costs no bookkeeping.
    """

    def __init__(self, capacity: int = 50_000) -> None:
        self._capacity = capacity // 2
        self._young: dict[Hashable, Any] = {}
        self._old: dict[Hashable, Any] = {}

    def get(self, key: Hashable) -> Any:
        found = self._young.get(key)
        if found is None and (found := self._old.get(key)) is not None:
            self.put(key, found)
        return found

    def put(self, key: Hashable, value: Any) -> None:
        if len(self._young) >= self._capacity:
            self._old, self._young = self._young, {}
        self._young[key] = value

    def view(self, raw: bytes | Raw) -> View:
        found: View | None = self.get(digest(raw))
        if found is None:
            found = view(raw)
            self.put(found.digest, found)
        return found

    def views(self, messages: Iterable[bytes | Raw]) -> list[View]:
        known, key_of = self._young.get, digest
        return [known(key_of(raw)) or self.view(raw) for raw in messages]

    def extras(self, extras: Sequence[bytes | Raw]) -> int:
        """Tokens of the fields beside the messages that a model reads too: tools, response format, prediction."""
        total = 0
        for raw in extras:
            key = (digest(raw), "extra")
            size: int | None = self.get(key)
            if size is None:
                size = bytes_tokens(_spaced(bytes(raw)))
                self.put(key, size)
            total += size
        return total
