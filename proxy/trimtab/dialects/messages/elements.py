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
from trimtab.context.read.views import PLACEHOLDER_TOKENS, Call, View, content_size
from trimtab.context.read.views import digest as digest_of

THOUGHTS = frozenset({"thinking", "redacted_thinking"})
REMINDER = "<system-reminder>"  # how Claude Code begins what it adds to a message by itself

_MARK = re.compile(rb',\s*"cache_control"\s*:\s*(?:\{[^{}]*\}|null)|"cache_control"\s*:\s*(?:\{[^{}]*\}|null)\s*,?')
_ENCRYPTED_BYTES = 4  # of base64, for a token of redacted thinking


class _Element(msgspec.Struct):
    """The fields read of a message or a block."""

    role: Any = None
    type: Any = None
    content: Any = None
    text: Any = None
    tool_use_id: Any = None
    pinned: Any = msgspec.UNSET


_decode = msgspec.json.Decoder(_Element).decode


def canonical(raw: bytes | Raw) -> bytes | Raw:
    """What an element means: its bytes without cache marks."""
    return _MARK.sub(b"", bytes(raw)) if b'"cache_control"' in bytes(raw) else raw


def digest(raw: bytes | Raw) -> bytes:
    """As `views.digest`, of what the element means."""
    return digest_of(canonical(raw))


def view(raw: bytes | Raw) -> View:
    """Read one element. Never raises: one of unknown form has an opaque view."""
    data = bytes(raw)
    try:
        element = _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _opaque(data, "")
    found = _message_view(element, data) if isinstance(element.role, str) else _block_view(element, data)
    if element.pinned is not msgspec.UNSET:
        return msgspec.structs.replace(found, pinned=element.pinned is True, has_mark=True)
    return found


def _message_view(message: _Element, data: bytes) -> View:
    role, content = message.role, message.content
    if not isinstance(content, str | list):
        return _opaque(data, role)
    if role == "assistant" and isinstance(content, list):
        return _answer_view(content, data)
    shape, chars, text, rest = content_size(content)
    tokens = text + rest + MESSAGE_OVERHEAD
    planned = "context" if role == "system" else role
    return View(planned, tokens, text, chars, shape, follows=role == "system", digest=digest(data))


def _answer_view(content: list[Any], data: bytes) -> View:
    """An answer of the model. One that holds a compaction stands for all that came before it, and stays."""
    kinds = [kind_of(block) for block in content]
    if "compaction" in kinds:
        return _opaque(data, "system")
    listed = list(zip(kinds, content, strict=True))
    thoughts = [block for kind, block in listed if kind in THOUGHTS]
    uses = [block for kind, block in listed if kind == "tool_use"]
    others = [block for kind, block in listed if kind not in THOUGHTS and kind != "tool_use"]
    shape, chars, text, rest = content_size(others)
    arguments = sum(bytes_tokens(msgspec.json.encode(use.get("input"))) for use in uses)
    names = sum(text_tokens(str(use.get("name", ""))) for use in uses)
    bound = sum(map(_thought_tokens, thoughts))
    return View(
        role="assistant",
        tokens=text + rest + arguments + names + bound + MESSAGE_OVERHEAD,
        text_tokens=text,
        chars=chars,
        shape=shape,
        calls=tuple(Call(str(use.get("id", "")), str(use.get("name", ""))) for use in uses),
        call_tokens=arguments,
        bound_tokens=bound,
        digest=digest(data),
    )


def kind_of(block: Any) -> str:
    """The type of a block; "" for what is no block."""
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else ""


def _thought_tokens(block: dict[str, Any]) -> int:
    """A signature costs nothing; what is redacted counts by its length."""
    if isinstance(text := block.get("thinking"), str):
        return max(1, text_tokens(text))
    hidden = block.get("data")
    return max(1, len(hidden) * 3 // 4 // _ENCRYPTED_BYTES) if isinstance(hidden, str) else 1


def _block_view(block: _Element, data: bytes) -> View:
    """A block of a user message that holds results."""
    if block.type == "text" and isinstance(block.text, str):
        size, chars = text_tokens(block.text), len(block.text)
        added = block.text.lstrip().startswith(REMINDER)
        role = "context" if added else "user"
        return View(role, size + MESSAGE_OVERHEAD, size, chars, "text", follows=added, digest=digest(data))
    if block.type == "tool_result" and isinstance(block.tool_use_id, str):
        return _result_view(block, data)
    if block.type in ("image", "document"):
        size = part_tokens(msgspec.json.decode(data)) + MESSAGE_OVERHEAD
        return View("user", size, shape="opaque", digest=digest(data))
    return _opaque(data, "context")


def _result_view(block: _Element, data: bytes) -> View:
    if block.content is not None and not isinstance(block.content, str | list):
        return _opaque(data, "tool", answers=block.tool_use_id)
    shape, chars, text, rest = content_size(block.content)
    tokens, cleared = text + rest + MESSAGE_OVERHEAD, PLACEHOLDER_TOKENS + MESSAGE_OVERHEAD
    answers = block.tool_use_id
    return View("tool", tokens, text, chars, shape, answers=answers, cleared_tokens=cleared, digest=digest(data))


def _opaque(data: bytes, role: str, answers: str | None = None) -> View:
    """A view that lets nothing be changed. Media count by their size."""
    try:
        size = part_tokens(msgspec.json.decode(data)) + MESSAGE_OVERHEAD
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        size = bytes_tokens(data) + MESSAGE_OVERHEAD
    follows = role == "context"
    return View(role, size, shape="opaque", answers=answers, follows=follows, cleared_tokens=size, digest=digest(data))
