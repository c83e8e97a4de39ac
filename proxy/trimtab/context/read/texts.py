"""The text parts of a content, and the mark `context` that a client may set on one."""

from __future__ import annotations

from typing import Any

import msgspec

_TEXT_PARTS = ("text", "input_text", "output_text")


def text_of(part: Any) -> str | None:
    """The text of a content part, or None for any other part: an image, audio, a file."""
    if isinstance(part, dict) and part.get("type") in _TEXT_PARTS and isinstance(part.get("text"), str):
        return str(part["text"])
    return None


def is_context(part: Any) -> bool:
    """True for a text part that the client marked as context, with `"context": true`."""
    return isinstance(part, dict) and part.get("context") is True and text_of(part) is not None


def has_context_field(parts: Any) -> bool:
    """True for a list of parts with a text part that has a `context`, true or false."""
    return isinstance(parts, list) and any(
        [isinstance(p, dict) and isinstance(p.get("context"), bool) and text_of(p) is not None for p in parts]
    )


def holds_context_field(content: bytes) -> bool:
    """The same for a content as JSON. Never raises."""
    if content[:1] != b"[" or b'"context"' not in content:
        return False
    try:
        return has_context_field(msgspec.json.decode(content))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
