"""A message as the planner sees it: its role, its size, its tool calls. Never its text.

Any bytes have a view. What is not a message of a known form is opaque: it counts by its bytes, and its content is
never changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw
from xxhash import xxh3_128_digest

from trimtab.context.estimate.parts import part_tokens
from trimtab.context.estimate.tokens import MESSAGE_OVERHEAD, bytes_tokens, text_tokens
from trimtab.context.read.fields import unknown_tokens
from trimtab.context.read.texts import has_marked_calls, has_marks, has_pinned, holds_marks, text_of
from trimtab.context.texts import PLACEHOLDER

PLACEHOLDER_TOKENS = text_tokens(PLACEHOLDER)

DIGEST_SEED = hash(__name__) & 0xFFFF_FFFF_FFFF_FFFF
"""Drawn for each process, like the seed of Python's own hashes, so that nobody can work out a collision beforehand."""

digest = partial(xxh3_128_digest, seed=DIGEST_SEED)
"""Cache key of a message (`bytes` or `msgspec.Raw`): a seeded XXH3 digest of its JSON, 16 bytes. No text is ever
found by it: what is sent is cut from the request at hand. XXH3 reads a message where it lies; Python's own hash needs
a copy first (1 MB of messages: 0.16 ms against 0.57 ms)."""

Shape = Literal["text", "parts", "none", "opaque"]
"""Form of a message's content: a string, a list of parts, absent, or unknown."""


class Call(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One tool call an assistant message declares; `id` is empty for the legacy `function_call`."""

    id: str
    name: str
    asks: int = 0  # see `asked`


_NOTHING = ("{}", b"{}")


def asked(name: str, given: Any) -> int:
    """A hash of a tool's name and what it is given, the same for the same call; like a digest it holds in one process.
    0 where nothing is given: such a tool pages on or watches, so that each of its results is another one."""
    if not given or given in _NOTHING:
        return 0
    return hash((name, given if isinstance(given, str | bytes) else msgspec.json.encode(given)))


class View(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What planning needs of one message. Sizes are estimated o200k tokens."""

    role: str
    tokens: int  # of the whole message, `MESSAGE_OVERHEAD` included
    text_tokens: int = 0  # of its text content, which truncating, clearing and squeezing can reduce
    chars: int = 0  # characters of its text content
    shape: Shape = "none"
    calls: tuple[Call, ...] = ()
    call_tokens: int = 0  # of the arguments of its calls
    answers: str | None = None  # id of the call this message is the result of; "" for a legacy function result
    pinned: bool = False  # the client marked it, or a part of it, with `"pinned": true`
    has_mark: bool = False  # it or a part of it has a mark of the client's, which must not go upstream
    bound_tokens: int = 0  # of parts that are valid only after the very messages they were made after
    follows: bool = False  # it goes on with what the message before it began: see `structure.homes`
    cleared_tokens: int = 0  # of the whole message, with the placeholder as its content
    digest: bytes = b""  # its cache key

    @property
    def is_result(self) -> bool:
        """True for the result of a tool call."""
        return self.answers is not None


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: Any = ""


class _Call(msgspec.Struct, gc=False):
    id: Any = None
    function: _Function | None = None
    custom: dict[str, Any] | None = None
    pinned: Any = UNSET


class _Message(msgspec.Struct, gc=False):
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
    pinned: Any = UNSET
    cache_control: Raw = Raw()  # this and the next cost nothing
    annotations: Raw = Raw()
    audio: Raw = Raw()


class _Known(_Message, forbid_unknown_fields=True):
    """A message without fields of other names."""


class _Outline(msgspec.Struct):
    """The fields read from a message in which some field has an unknown type."""

    role: Any = None
    tool_calls: Any = None
    tool_call_id: Any = None
    pinned: Any = UNSET
    content: Raw = Raw()


_decode = msgspec.json.Decoder(_Message).decode
_decode_known = msgspec.json.Decoder(_Known).decode
_KNOWN = frozenset(_Message.__struct_fields__)
_outline = msgspec.json.Decoder(_Outline).decode


def view(raw: bytes | Raw, key: bytes = b"") -> View:
    """Read one message; `key`: its digest, where that is known. Never raises: a message of unknown form gets an opaque
    view, with its role and tool call ids where they can be read; so does one that is slow to decode, which would keep
    other threads waiting."""
    if len(raw) > _SLOW_CHARS and _is_slow(bytes(raw)):
        return _opaque(bytes(raw))
    unknown = 0
    try:
        message: _Message = _decode_known(raw)
    except (msgspec.DecodeError, RecursionError):
        try:
            message = _decode(raw)
        except (msgspec.DecodeError, RecursionError):
            return _opaque(bytes(raw))
        unknown = unknown_tokens(raw, _KNOWN, _texts(_reasoning(message)))
    content = message.content
    shape: Shape
    if isinstance(content, str):  # most messages by far
        shape, chars, text, rest = "text", len(content), text_tokens(content), 0
    else:
        shape, chars, text, rest = content_size(content)
    calls: tuple[Call, ...] = ()
    beside, arguments = unknown + MESSAGE_OVERHEAD, 0  # tokens of all but the content
    marks = [] if message.pinned is UNSET else [message.pinned]
    if message.tool_calls or message.function_call:
        calls, arguments = _calls(message)
        marks += [call.pinned for call in message.tool_calls or () if call.pinned is not UNSET]
        beside += arguments + sum([name_tokens(call.name) for call in calls])
    for value in (_reasoning(message), message.name, message.refusal):
        if value:
            beside += _size(value)
    has_mark = bool(marks) or (shape == "parts" and has_marks(content))
    return View(
        message.role,
        text + rest + beside,
        text,
        chars,
        shape,
        calls,
        arguments,
        answers=_answers(message),
        pinned=has_mark and (any([mark is True for mark in marks]) or has_pinned(content)),
        has_mark=has_mark,
        cleared_tokens=beside + PLACEHOLDER_TOKENS,
        digest=key or digest(raw),
    )


# Escapes, and bytes beyond ASCII, of one message: so many are decoded in about 30 ms, plain ASCII ten times as fast.
_SLOW_CHARS = 8 << 20
_SLICE = 1 << 20
_ASCII = bytes(range(128))


def _is_slow(raw: bytes) -> bool:
    slices = (raw[at : at + _SLICE] for at in range(0, len(raw), _SLICE))
    return sum([len(part.translate(None, _ASCII)) + part.count(b"\\") for part in slices]) > _SLOW_CHARS


def _opaque(raw: bytes) -> View:
    size = bytes_tokens(raw) + MESSAGE_OVERHEAD
    try:
        seen = _outline(raw)
    except (msgspec.DecodeError, RecursionError):
        seen = _Outline()
    declared = seen.tool_calls if isinstance(seen.tool_calls, list) else []
    ids = [_id(call.get("id")) for call in declared if isinstance(call, dict)]
    marked = seen.pinned is not UNSET or has_marked_calls(declared)
    return View(
        role=seen.role if isinstance(seen.role, str) else "",
        tokens=size,
        shape="opaque",
        calls=tuple(Call(id, "") for id in ids),
        answers=_id(seen.tool_call_id) if seen.role in ("tool", "function") else None,
        pinned=seen.pinned is True or has_pinned(declared),
        has_mark=marked or holds_marks(bytes(seen.content)),
        cleared_tokens=size,
        digest=digest(raw),
    )


def _reasoning(message: _Message) -> Any:
    """The reasoning, from the first field that has it: where two fields have it, it is the same text."""
    text = message.reasoning_content or message.reasoning
    return text or message.reasoning_details or message.thinking_blocks


def _texts(reasoning: Any) -> Iterator[str]:
    """The texts of a message's reasoning."""
    for value in reasoning if isinstance(reasoning, list) else [reasoning]:
        yield from filter(lambda text: isinstance(text, str), value.values() if isinstance(value, dict) else [value])


def content_size(content: str | list[Any] | None) -> tuple[Shape, int, int, int]:
    """Shape, characters of text, tokens of text, tokens of the other parts."""
    if content is None:
        return "none", 0, 0, 0
    if isinstance(content, str):
        return "text", len(content), text_tokens(content), 0
    texts = [text_of(part) for part in content]
    present = [text for text in texts if text is not None]
    rest = sum(part_tokens(part) for part, text in zip(content, texts, strict=True) if text is None)
    return "parts", sum(map(len, present)), sum(map(text_tokens, present)), rest


def _calls(message: _Message) -> tuple[tuple[Call, ...], int]:
    """The calls of a message, and the tokens of the arguments of all."""
    made, tokens = [], 0
    for call in message.tool_calls or ():
        tokens += _size(call.function.arguments if call.function else call.custom)
        made.append(_call(_id(call.id), call.function or _custom(call.custom or {})))
    if legacy := message.function_call:
        tokens += _size(legacy.arguments)
        if legacy.name or not made:  # some clients add an empty one beside `tool_calls`
            made.append(_call("", legacy))
    return tuple(made), tokens


def _call(id: str, function: _Function) -> Call:
    name = function.name or ""
    return Call(id, name, asked(name, function.arguments))


def _custom(call: dict[str, Any]) -> _Function:
    return _Function(str(call.get("name", "")), call.get("input"))


def _id(value: Any) -> str:
    """The id of a call. Some clients send a number."""
    return value if isinstance(value, str) else "" if value is None else str(value)


def _answers(message: _Message) -> str | None:
    if message.role == "tool":
        return _id(message.tool_call_id)
    return "" if message.role == "function" else None


def name_tokens(name: str) -> int:
    """Tokens of a tool's name. Short names are cached: an agent calls the same few tools again and again."""
    return _short_name_tokens(name) if len(name) <= _SHORT_NAME else text_tokens(name)


_SHORT_NAME = 64  # characters; the most OpenAI allows
_short_name_tokens = lru_cache(maxsize=4_096)(text_tokens)


def _size(value: Any) -> int:
    if not value:
        return 0
    if isinstance(value, str):
        return text_tokens(value)
    return bytes_tokens(msgspec.json.encode(value))
