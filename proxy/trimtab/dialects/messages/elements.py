"""One element of a Messages request, a message or a block of one, as the planner sees it.

Thinking is never changed: it is signed. Some models bind it to all that came before it as well; then it is taken out
where the planner says so (`unbind`). A `cache_control` mark moves on with every request, so what a message means does
not depend on it: two that differ in their marks alone have one digest.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Raw

from trimtab.context.estimate.parts import part_tokens
from trimtab.context.estimate.tokens import MESSAGE_OVERHEAD, bytes_tokens, text_tokens
from trimtab.context.read.texts import has_marks, has_pinned, holds_marks
from trimtab.context.read.views import PLACEHOLDER_TOKENS, Call, View, asked, content_size, name_tokens
from trimtab.context.read.views import digest as digest_of

THOUGHTS = frozenset({"thinking", "redacted_thinking"})
REMINDER = "<system-reminder>"  # how Claude Code begins what it adds to a message by itself

_MARK = re.compile(rb',\s*"cache_control"\s*:\s*(?:\{[^{}]*\}|null)|"cache_control"\s*:\s*(?:\{[^{}]*\}|null)\s*,?')
_ENCRYPTED_BYTES = 4  # of base64, for a token of redacted thinking


class _Element(msgspec.Struct):
    """The fields read of a message or a block."""

    role: Any = None
    type: Any = None
    content: Raw = Raw()
    text: Any = None
    tool_use_id: Any = None
    pinned: Any = msgspec.UNSET
    context: Any = None  # of a text block


class _Part(msgspec.Struct):
    """The fields read of a block of an answer."""

    type: str = ""
    text: Any = None
    id: Any = None
    name: Any = None
    input: Raw = Raw()
    thinking: Any = None
    data: Any = None


_decode = msgspec.json.Decoder(_Element).decode
_decode_any = msgspec.json.Decoder().decode
_decode_parts = msgspec.json.Decoder(list[_Part]).decode


def canonical(raw: bytes | Raw) -> bytes | Raw:
    """What an element means: its bytes without cache marks."""
    data = bytes(raw)
    return _MARK.sub(b"", data) if b'"cache_control"' in data else raw


def digest(raw: bytes | Raw) -> bytes:
    """As `views.digest`, of what the element means."""
    return digest_of(canonical(raw))


def view(raw: bytes | Raw, key: bytes = b"") -> View:
    """Read one element; `key`: its digest, if known. Never raises: one of unknown form has an opaque view."""
    data = bytes(canonical(raw))
    key = key or digest_of(data)
    try:
        element = _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _opaque(data, key, "")
    is_message = isinstance(element.role, str)
    try:
        found = (_message_view if is_message else _block_view)(element, data, key)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        answers = element.tool_use_id if isinstance(element.tool_use_id, str) else None
        role = element.role if is_message else "tool" if answers else "context"
        found = _opaque(data, key, role, answers)
    if element.pinned is not msgspec.UNSET:
        return msgspec.structs.replace(found, pinned=element.pinned is True, has_mark=True)
    is_context = not is_message and element.type == "text" and isinstance(element.context, bool)
    if not found.has_mark and (is_context or holds_marks(bytes(element.content))):
        return msgspec.structs.replace(found, has_mark=True)
    return found


def _message_view(message: _Element, data: bytes, key: bytes) -> View:
    role = message.role
    if role == "assistant" and bytes(message.content)[:1] == b"[":
        return _answer_view(message.content, data, key)
    content = _decode_any(message.content or b"null")
    if not isinstance(content, str | list):
        return _opaque(data, key, role)
    shape, chars, text, rest = content_size(content)
    tokens = text + rest + MESSAGE_OVERHEAD
    follows, has_mark = role == "system", has_marks(content)
    pinned, planned = has_mark and has_pinned(content), "context" if follows else role
    return View(planned, tokens, text, chars, shape, pinned=pinned, has_mark=has_mark, follows=follows, digest=key)


def _answer_view(content: Raw, data: bytes, key: bytes) -> View:
    """An answer of the model. One that holds a compaction stands for all that came before it, and stays. Raises what
    `view` catches."""
    parts = _decode_parts(content)
    chars = text = other = arguments = bound = 0
    calls: list[Call] = []
    for at, part in enumerate(parts):
        kind = part.type
        if kind == "text" and isinstance(part.text, str):
            chars += len(part.text)
            text += text_tokens(part.text)
        elif kind == "tool_use":
            name, given = str(part.name or ""), bytes(part.input)
            call = Call(str(part.id or ""), name, asked(name, given))
            calls.append(call)
            other += name_tokens(call.name)
            arguments += bytes_tokens(given)
        elif kind in THOUGHTS:
            bound += _thought_tokens(part)
        elif kind == "compaction":
            return _opaque(data, key, "system")
        else:
            other += part_tokens(_decode_any(content)[at])
    return View(
        role="assistant",
        tokens=text + other + arguments + bound + MESSAGE_OVERHEAD,
        text_tokens=text,
        chars=chars,
        shape="parts",
        calls=tuple(calls),
        call_tokens=arguments,
        bound_tokens=bound,
        digest=key,
    )


def kind_of(block: Any) -> str:
    """The type of a block; "" for what is no block."""
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else ""


def _thought_tokens(part: _Part) -> int:
    """A signature costs nothing; what is redacted counts by its length."""
    if isinstance(part.thinking, str):
        return max(1, text_tokens(part.thinking))
    hidden = part.data
    return max(1, len(hidden) * 3 // 4 // _ENCRYPTED_BYTES) if isinstance(hidden, str) else 1


def _block_view(block: _Element, data: bytes, key: bytes) -> View:
    """A block of a user message that holds results."""
    if block.type == "text" and isinstance(block.text, str):
        size, chars = text_tokens(block.text), len(block.text)
        added = block.text.lstrip().startswith(REMINDER)
        role = "context" if added else "user"
        return View(role, size + MESSAGE_OVERHEAD, size, chars, "text", follows=added, digest=key)
    if block.type == "tool_result" and isinstance(block.tool_use_id, str):
        return _result_view(block, data, key)
    if block.type in ("image", "document"):
        size = part_tokens(msgspec.json.decode(data)) + MESSAGE_OVERHEAD
        return View("user", size, shape="opaque", digest=key)
    return _opaque(data, key, "context")


def _result_view(block: _Element, data: bytes, key: bytes) -> View:
    content = _decode_any(block.content or b"null")
    if content is not None and not isinstance(content, str | list):
        return _opaque(data, key, "tool", answers=block.tool_use_id)
    shape, chars, text, rest = content_size(content)
    tokens, cleared = text + rest + MESSAGE_OVERHEAD, PLACEHOLDER_TOKENS + MESSAGE_OVERHEAD
    answers = block.tool_use_id
    return View("tool", tokens, text, chars, shape, answers=answers, cleared_tokens=cleared, digest=key)


def _opaque(data: bytes, key: bytes, role: str, answers: str | None = None) -> View:
    """A view that lets nothing be changed. Media count by their size."""
    try:
        size = part_tokens(msgspec.json.decode(data)) + MESSAGE_OVERHEAD
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        size = bytes_tokens(data) + MESSAGE_OVERHEAD
    follows = role == "context"
    return View(role, size, shape="opaque", answers=answers, follows=follows, cleared_tokens=size, digest=key)
