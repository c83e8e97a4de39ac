"""An answer of nothing: status 200, no text, no tool call, because the prompt left no room for any.

Two kinds are known. The finish reason names the window (`model_context_window_exceeded`, Mistral's `model_length`). Or
it is `length`, no token was generated, and the prompt fills the window. Where there is any output the answer is an
answer: it was cut off, and the client decides about that.

    {"choices": [{"finish_reason": "length", "message": {"content": ""}}],
     "usage": {"prompt_tokens": 8192, "completion_tokens": 0}}        with a window of 8192: an overflow

The Messages API says `max_tokens` in the place of `length`, Responses `max_output_tokens` in its `incomplete_details`.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from trimtab.overflow.classify import Overflow
from trimtab.overflow.error_body import decode_json
from trimtab.overflow.sent import Sent

_FILLED = 0.9  # share of the window from which on a prompt fills it: estimates are off by some percent
_LEAST_UNKNOWN = 8_192  # tokens of a prompt; where the window is a guess, the answer to a shorter one is relayed
_LARGEST = 512 << 10  # bytes of an answer without output; one search for its reason cannot be interrupted
_LEAST_ASKED = 2  # tokens of output; of a request for fewer an empty answer says nothing
_NAMES_WINDOW = re.compile(r"context|window|model_length|prompt_?too|too_?long", re.IGNORECASE)
_REASON = re.compile(rb'_reason"\s*:\s*"([^"]*)"')  # begins with fixed bytes: an alternative is tried at each byte
_ORDINARY = frozenset((b"stop", b"tool_calls", b"function_call", b"content_filter", b"end_turn", b"tool_use"))
_CUT_OFF = frozenset(("length", "max_tokens", "max_output_tokens"))
_OUTPUT = ("content", "tool_calls", "function_call", "refusal", "reasoning_content", "reasoning", "audio", "text")
_BEGINS = frozenset(("message_start", "ping", "message_stop", "content_block_stop"))  # events without any output
_BEGINS |= {"response.created", "response.in_progress", "response.queued"}
_ENDS = frozenset(("response.completed", "response.incomplete"))
_INPUT = ("prompt_tokens", "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
Fields = dict[str, Any]


class _End(msgspec.Struct, frozen=True):
    """How an answer without output ended: why, and with which usage."""

    reasons: tuple[Any, ...] = ()
    usage: Fields = {}


def empty_answer(body: bytes, sent: Sent) -> Overflow | None:
    """The overflow that a whole answer of status 200 to what was `sent` amounts to, or None. Never raises."""
    if len(body) > _LARGEST or (_ORDINARY.issuperset(_REASON.findall(body)) and b'"incomplete"' not in body):
        return None
    value = decode_json(body)
    end = _whole(value) if isinstance(value, dict) else None
    return None if end is None else _overflow(end, sent)


def empty_stream(events: list[bytes], sent: Sent) -> tuple[bool, Overflow | None]:
    """What the first events of a stream amount to: whether that is known yet, and the overflow, if it is one. It is
    known when there is any output or a finish reason. Never raises."""
    ended: _End | None = None
    usage: Fields = {}
    for event in events:
        value = decode_json(event)
        found = _event(value) if isinstance(value, dict) else None
        if found is None:
            return True, None
        ended = ended or (found if found.reasons else None)
        usage = {**usage, **found.usage}
    return ended is not None, None if ended is None else _overflow(_End(ended.reasons, usage), sent)


def _whole(value: Fields) -> _End | None:
    """The end of a whole answer in any of the three formats; None for one with output."""
    usage, choices = _fields(value.get("usage")), value.get("choices")
    if isinstance(choices, list):
        return _choice(choices[0], usage) if len(choices) == 1 and isinstance(choices[0], dict) else None
    if isinstance(value.get("content"), list):  # of the Messages API
        return None if any(map(_is_output, value["content"])) else _End((value.get("stop_reason"),), usage)
    if isinstance(value.get("output"), list):  # of Responses
        why = _fields(value.get("incomplete_details")).get("reason")
        return None if any(map(_is_output, value["output"])) else _End((why,), usage)
    return None


def _event(value: Fields) -> _End | None:
    """What one event has of the end; None for output."""
    kind, usage = value.get("type"), _fields(value.get("usage"))
    if isinstance(value.get("choices"), list):
        choices = value["choices"]
        ends = [_choice(choice, usage) if isinstance(choice, dict) else None for choice in choices]
        if None in ends:
            return None
        return next((end for end in ends if end is not None and any(end.reasons)), _End(usage=usage))
    if kind in _BEGINS:  # what a `message_start` says of the output is no count yet
        begun = _fields(_fields(value.get("message")).get("usage"))
        return _End(usage={name: count for name, count in begun.items() if name != "output_tokens"})
    if kind == "content_block_start":
        return None if _is_output(value.get("content_block")) else _End()
    if kind == "message_delta":
        return _End((_fields(value.get("delta")).get("stop_reason"),), usage)
    return _whole(_fields(value.get("response"))) if kind in _ENDS else None


def _choice(choice: Fields, usage: Fields) -> _End | None:
    """The end of a choice, of an answer or of a chunk; None where it holds anything that a model generated."""
    parts = (choice, choice.get("message"), choice.get("delta"))
    if any(part.get(name) for part in parts if isinstance(part, dict) for name in _OUTPUT):
        return None
    reasons = tuple(choice.get(name) for name in ("finish_reason", "native_finish_reason", "stop_reason"))
    return _End(reasons if any(reasons) else (), usage)


def _is_output(part: Any) -> bool:
    """True for a block or an item, unless it is a text or a message of nothing."""
    if not isinstance(part, dict) or part.get("type") not in ("text", "output_text", "message"):
        return True
    inner = part.get("content", part.get("text"))
    return any(map(_is_output, inner)) if isinstance(inner, list) else bool(inner)


def _fields(value: Any) -> Fields:
    return value if isinstance(value, dict) else {}


def _overflow(end: _End, sent: Sent) -> Overflow | None:
    """The overflow that an answer without any output amounts to, by its finish reason and its usage."""
    texts = [reason for reason in end.reasons if isinstance(reason, str)]
    named = next((reason for reason in texts if _NAMES_WINDOW.search(reason)), None)
    if named is not None:
        believed = sent.window or sent.input_tokens >= _LEAST_UNKNOWN
    else:
        believed = not _CUT_OFF.isdisjoint(texts) and _is_filled(end.usage, sent)
    if not believed:
        return None
    return Overflow(message=f"The answer is empty, with the finish reason {named or 'length'}.")


def _is_filled(usage: Fields, sent: Sent) -> bool:
    if usage.get("completion_tokens") or usage.get("output_tokens") or 0 < sent.output_tokens < _LEAST_ASKED:
        return False
    counted = sum(int(usage[name]) for name in _INPUT if type(usage.get(name)) is int)
    return max(counted, sent.input_tokens) >= sent.window * _FILLED > 0
