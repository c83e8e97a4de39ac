"""The text parts of a content, and the marks that a client may set on its parts."""

from __future__ import annotations

from typing import Any

import msgspec

_TEXT_PARTS = ("text", "input_text", "output_text")
_DEPTH = 3  # levels of parts in parts: a result in a message has one


def text_of(part: Any) -> str | None:
    """The text of a content part, or None for any other part: an image, audio, a file."""
    if isinstance(part, dict) and part.get("type") in _TEXT_PARTS and isinstance(part.get("text"), str):
        return str(part["text"])
    return None


def is_context(part: Any) -> bool:
    """True for a text part that the client marked as context, with `"context": true`."""
    return isinstance(part, dict) and part.get("context") is True and text_of(part) is not None


def has_marks(parts: Any) -> bool:
    """True for a list of parts of which one has a mark, or holds one: a part with a `pinned`, a text part with a
    `context`, true or false, and a result with such a part among its own."""
    return isinstance(parts, list) and any([_has_mark(part, _DEPTH) for part in parts])


def has_pinned(parts: Any) -> bool:
    """True for a list of parts of which one is marked with `"pinned": true`, which holds the whole message."""
    return isinstance(parts, list) and any([isinstance(part, dict) and part.get("pinned") is True for part in parts])


def has_marked_calls(calls: Any) -> bool:
    """True for a list of tool calls of which one has a `pinned`."""
    return isinstance(calls, list) and any([isinstance(call, dict) and "pinned" in call for call in calls])


def _has_mark(part: Any, depth: int) -> bool:
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        return False
    if "pinned" in part or (isinstance(part.get("context"), bool) and text_of(part) is not None):
        return True
    inner = part.get("content")
    if inner is None:
        output = part.get("output")  # of the AI SDK
        inner = output.get("value") if isinstance(output, dict) and output.get("type") == "content" else None
    return isinstance(inner, list) and depth > 0 and any([_has_mark(each, depth - 1) for each in inner])


def holds_marks(content: bytes) -> bool:
    """The same for a content as JSON. Never raises."""
    if content[:1] != b"[" or not (b'"context"' in content or b"pinned" in content):
        return False
    try:
        return has_marks(msgspec.json.decode(content))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
