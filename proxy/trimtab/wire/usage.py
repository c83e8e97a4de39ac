"""The token counts that an answer reports.

It reads answers that are relayed anyway: any bytes are tolerated, nothing is raised, and only a whole number within
bounds is taken for a count. Most events of a stream report no usage, and are skipped without being parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

# Tokens: ten times the largest window on the market. A larger count is a mistake.
_MAX_COUNT = 100_000_000

_MAX_BYTES = 64 << 10  # of a usage object as JSON; real ones have a few hundred

_HAS_USAGE = re.compile(rb'"usage"\s*:\s*\{')


class Usage(msgspec.Struct, frozen=True):
    """Counts in tokens as the upstream reported them, None for one that it did not report.

    `cached_tokens` is the part of the prompt that the provider read from its cache.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


def usage_of(data: bytes) -> Usage | None:
    """The usage in a JSON body, or in the `data` of one event; None without one. Never raises."""
    if b'"usage"' not in data or not _HAS_USAGE.search(data):
        return None
    answer = _decoded(_decode_answer, data)
    return None if answer is None else _usage(answer)


def decoded_usage(data: bytes, *within: str) -> dict[str, Any] | None:
    """The object `usage` of a JSON body, or of the object in the first of the fields `within` that has one; None
    without one. Never raises."""
    if b'"usage"' not in data or not _HAS_USAGE.search(data):
        return None
    answer = _decoded(_decode_fields, data) or {}
    for fields in (answer, *(_decoded(_decode_fields, answer[name]) or {} for name in within if name in answer)):
        found = _decoded(_decode_any, fields.get("usage", b"null"))
        if isinstance(found, dict):
            return found
    return None


class _Groq(msgspec.Struct):
    usage: msgspec.Raw = msgspec.Raw(b"null")


class _Answer(msgspec.Struct):
    """The fields that are read; all others are skipped without being built."""

    usage: msgspec.Raw = msgspec.Raw(b"null")
    x_groq: msgspec.Raw = msgspec.Raw(b"null")


_decode_answer = msgspec.json.Decoder(_Answer).decode
_decode_groq = msgspec.json.Decoder(_Groq).decode
_decode_any = msgspec.json.Decoder().decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _decoded(decode: Callable[[bytes | msgspec.Raw], Any], data: bytes | msgspec.Raw) -> Any:
    try:
        return decode(data)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def _decoded_usage(data: msgspec.Raw) -> Any:
    return _decoded(_decode_any, data) if len(data) <= _MAX_BYTES else None


def _usage(answer: _Answer) -> Usage | None:
    """The usage object at the top of an answer, or where Groq's streams put it."""
    found = _decoded_usage(answer.usage)
    if not isinstance(found, dict) and (groq := _decoded(_decode_groq, answer.x_groq)):
        found = _decoded_usage(groq.usage)
    if not isinstance(found, dict):
        return None
    prompt, completion = count(found.get("prompt_tokens")), count(found.get("completion_tokens"))
    if prompt is None and completion is None:
        return None
    return Usage(prompt, completion, _cached(found, prompt))


def _cached(usage: dict[str, Any], prompt: int | None) -> int | None:
    """Cached prompt tokens, from OpenAI's field, DeepSeek's, or Moonshot's. Never more than the prompt."""
    details = usage.get("prompt_tokens_details")
    fields = (
        details.get("cached_tokens") if isinstance(details, dict) else None,
        usage.get("prompt_cache_hit_tokens"),
        usage.get("cached_tokens"),
    )
    cached = next((found for field in fields if (found := count(field)) is not None), None)
    return None if cached is not None and prompt is not None and cached > prompt else cached


def count(value: Any) -> int | None:
    """A count of tokens; None for what cannot be one."""
    return value if type(value) is int and 0 <= value <= _MAX_COUNT else None
