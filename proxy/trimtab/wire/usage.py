"""The token counts that an answer reports.

It reads answers that are relayed anyway: any bytes are tolerated, nothing is raised, and only a whole number within
bounds is taken for a count. Most events of a stream report no usage, and are skipped without being parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

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
    found: _Counts | None
    try:
        answer = _decode_answer(data)
        found = answer.usage if answer.usage is not None or answer.x_groq is None else answer.x_groq.usage
    except (msgspec.MsgspecError, RecursionError, ValueError):
        found = _leniently(data)
    if found is None or (found.prompt_tokens is None and found.completion_tokens is None):
        return None
    details = found.prompt_tokens_details
    cached = details.cached_tokens if details is not None else None
    cached = found.prompt_cache_hit_tokens if cached is None else cached
    cached = found.cached_tokens if cached is None else cached
    if cached is not None and found.prompt_tokens is not None and cached > found.prompt_tokens:
        cached = None
    return Usage(found.prompt_tokens, found.completion_tokens, cached)


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


class _Any(msgspec.Struct):
    """The fields that are read, of any type; all others are skipped without being built."""

    usage: msgspec.Raw = msgspec.Raw(b"null")
    x_groq: msgspec.Raw = msgspec.Raw(b"null")


Count = Annotated[int, msgspec.Meta(ge=0, le=_MAX_COUNT)]


class _Details(msgspec.Struct):
    cached_tokens: Count | None = None


class _Counts(msgspec.Struct):
    """OpenAI's fields; the last two are DeepSeek's and Moonshot's."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    prompt_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: Count | None = None
    cached_tokens: Count | None = None


class _Groq(msgspec.Struct):
    usage: _Counts | None = None


class _Answer(msgspec.Struct):
    """An answer whose usage is as it should be: `usage` at its top, or where Groq's streams put it."""

    usage: _Counts | None = None
    x_groq: _Groq | None = None


_decode_answer = msgspec.json.Decoder(_Answer).decode
_decode_whatever = msgspec.json.Decoder(_Any).decode
_decode_any = msgspec.json.Decoder().decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _decoded(decode: Callable[[bytes | msgspec.Raw], Any], data: bytes | msgspec.Raw) -> Any:
    try:
        return decode(data)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def _leniently(data: bytes) -> _Counts | None:
    """The counts of an answer that has fields of other types: what is no count is left out."""
    answer = _decoded(_decode_whatever, data)
    if answer is None:
        return None
    groq = _decoded(_decode_whatever, answer.x_groq)
    for raw in (answer.usage, groq.usage if groq is not None else b"null"):
        found = _decoded(_decode_any, raw) if len(raw) <= _MAX_BYTES else None
        if isinstance(found, dict):
            counts = {name: count(found.get(name)) for name in _COUNTED}
            details = found.get("prompt_tokens_details")
            cached = _Details(count(details.get("cached_tokens"))) if isinstance(details, dict) else None
            return _Counts(prompt_tokens_details=cached, **counts)
    return None


_COUNTED = ("prompt_tokens", "completion_tokens", "prompt_cache_hit_tokens", "cached_tokens")


def count(value: Any) -> int | None:
    """A count of tokens; None for what cannot be one."""
    return value if type(value) is int and 0 <= value <= _MAX_COUNT else None
