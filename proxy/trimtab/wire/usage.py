"""What an answer says of itself: tokens used, why it ended, whether it is an error after all.

An observer beside the path: any bytes are tolerated, nothing is raised, and what is not plainly a count is
not taken for one. Most events of a stream say nothing of the kind, so they are dismissed unparsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

# Tokens; ten times the largest window on the market. A larger count is a mistake, not a measurement.
_MOST = 100_000_000

# A cheap look: a usage, an error or a reason to end, with something in it.
_TELLS = re.compile(rb'"(?:usage|finish_reason|error)"\s*:\s*["{]')


class Usage(msgspec.Struct, frozen=True):
    """Counts in tokens as the upstream reported them; None where it reported none.

    `cached_tokens` is the part of the prompt that the provider read from its cache.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


class Seen(msgspec.Struct, frozen=True):
    """What one body, or one event, told. `error` is true for an error object inside a success."""

    usage: Usage | None = None
    finish_reason: str | None = None
    error: bool = False


NOTHING = Seen()


def observe(data: bytes) -> Seen:
    """What a JSON body or the `data` of one event tells. Never raises."""
    if not _TELLS.search(data):
        return NOTHING
    told = _decoded(_whole, data)
    if told is None:
        return NOTHING
    return Seen(_usage(told), _finish_reason(told.choices), _given(told.error))


def usage_of(data: bytes) -> Usage | None:
    """The usage in a JSON body or in the `data` of one event, None if it has none. Never raises."""
    told = _decoded(_whole, data) if b'"usage"' in data and _TELLS.search(data) else None
    return None if told is None else _usage(told)


class _Groq(msgspec.Struct):
    usage: msgspec.Raw = msgspec.Raw(b"null")


class _Told(msgspec.Struct):
    """The fields that matter; the rest is skipped without being built."""

    usage: msgspec.Raw = msgspec.Raw(b"null")
    choices: msgspec.Raw = msgspec.Raw(b"null")
    error: msgspec.Raw = msgspec.Raw(b"null")
    x_groq: msgspec.Raw = msgspec.Raw(b"null")


class _Choice(msgspec.Struct):
    finish_reason: str | None = None


_whole = msgspec.json.Decoder(_Told).decode
_groq = msgspec.json.Decoder(_Groq).decode
_choices = msgspec.json.Decoder(list[_Choice]).decode
_anything = msgspec.json.Decoder().decode


def _decoded(decode: Callable[[bytes | msgspec.Raw], Any], data: bytes | msgspec.Raw) -> Any:
    try:
        return decode(data)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def _usage(told: _Told) -> Usage | None:
    """The usage object, at the top or where Groq's streams put it."""
    found = _decoded(_anything, told.usage)
    if not isinstance(found, dict) and _given(told.x_groq) and (groq := _decoded(_groq, told.x_groq)):
        found = _decoded(_anything, groq.usage)
    if not isinstance(found, dict):
        return None
    prompt, completion = _count(found.get("prompt_tokens")), _count(found.get("completion_tokens"))
    if prompt is None and completion is None:
        return None
    return Usage(prompt, completion, _cached(found, prompt))


def _cached(usage: dict[str, Any], prompt: int | None) -> int | None:
    """Cached prompt tokens: OpenAI's place, then DeepSeek's, then Moonshot's. Never more than the prompt."""
    details = usage.get("prompt_tokens_details")
    places = (
        details.get("cached_tokens") if isinstance(details, dict) else None,
        usage.get("prompt_cache_hit_tokens"),
        usage.get("cached_tokens"),
    )
    counts = (count for place in places if (count := _count(place)) is not None)
    cached = next(counts, None)
    return None if cached is not None and prompt is not None and cached > prompt else cached


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= _MOST else None


def _finish_reason(choices: msgspec.Raw) -> str | None:
    found = _decoded(_choices, choices)
    return next((choice.finish_reason for choice in found or () if choice.finish_reason), None)


def _given(raw: msgspec.Raw) -> bool:
    return bytes(raw) not in (b"null", b"{}", b'""', b"false")
