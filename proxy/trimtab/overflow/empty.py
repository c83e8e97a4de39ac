"""An answer of nothing: status 200, no text, no tool call, because the prompt left no room for any.

Two kinds are known. The finish reason names the window (`model_context_window_exceeded`, Mistral's `model_length`). Or
it is `length`, no token was generated, and the prompt fills the window. Where there is any output the answer is an
answer: it was cut off, and the client decides about that.

    {"choices": [{"finish_reason": "length", "message": {"content": ""}}],
     "usage": {"prompt_tokens": 8192, "completion_tokens": 0}}        with a window of 8192: an overflow
"""

from __future__ import annotations

import re
from typing import Any

from trimtab.overflow.classify import Overflow
from trimtab.overflow.error_body import decode_json
from trimtab.overflow.sent import Sent

_FILLED = 0.9  # share of the window from which on a prompt fills it: estimates are off by some percent
_LEAST_UNKNOWN = 8_192  # tokens of a prompt; where the window is a guess, the answer to a shorter one is relayed
_LEAST_ASKED = 2  # tokens of output; of a request for fewer an empty answer says nothing
_NAMES_WINDOW = re.compile(r"context|window|model_length|prompt_?too|too_?long", re.IGNORECASE)
_REASON = re.compile(rb'(?:finish|stop)_reason"\s*:\s*"([^"]*)"')
_ORDINARY = frozenset((b"stop", b"tool_calls", b"function_call", b"content_filter", b"end_turn", b"tool_use"))
_OUTPUT = ("content", "tool_calls", "function_call", "refusal", "reasoning_content", "reasoning", "audio", "text")


def empty_answer(body: bytes, sent: Sent) -> Overflow | None:
    """The overflow that a whole answer of status 200 to what was `sent` amounts to, or None. Never raises."""
    reasons = _REASON.findall(body)
    if not reasons or _ORDINARY.issuperset(reasons):
        return None
    value = decode_json(body)
    choices = value.get("choices") if isinstance(value, dict) else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        return None
    choice: dict[str, Any] = choices[0]
    if _has_output(choice):
        return None
    usage = value.get("usage")
    return _empty_choice(choice, usage if isinstance(usage, dict) else {}, sent)


def empty_stream(events: list[bytes], sent: Sent) -> tuple[bool, Overflow | None]:
    """What the first events of a stream of chunks amount to: whether that is known yet, and the overflow, if it is one.
    It is known when there is any output or a finish reason. Never raises."""
    ended: dict[str, Any] | None = None
    usage: dict[str, Any] = {}
    for event in events:
        value = decode_json(event)
        choices = value.get("choices") if isinstance(value, dict) else None
        if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
            return True, None
        if any(map(_has_output, choices)):
            return True, None
        ended = next((choice for choice in choices if choice.get("finish_reason")), ended)
        usage = value["usage"] if isinstance(value.get("usage"), dict) else usage
    return ended is not None, None if ended is None else _empty_choice(ended, usage, sent)


def _has_output(choice: dict[str, Any]) -> bool:
    """True when a choice, of an answer or of a chunk, holds anything that a model generated."""
    parts = (choice, choice.get("message"), choice.get("delta"))
    return any(part.get(name) for part in parts if isinstance(part, dict) for name in _OUTPUT)


def _empty_choice(choice: dict[str, Any], usage: dict[str, Any], sent: Sent) -> Overflow | None:
    """The overflow that a choice without any output amounts to, by its finish reason and the answer's usage."""
    reasons = [choice.get(name) for name in ("finish_reason", "native_finish_reason", "stop_reason")]
    named = next((reason for reason in reasons if isinstance(reason, str) and _NAMES_WINDOW.search(reason)), None)
    if named is not None:
        believed = sent.window or sent.input_tokens >= _LEAST_UNKNOWN
    else:
        believed = "length" in reasons and _is_filled(usage, sent)
    if not believed:
        return None
    return Overflow(message=f"The answer is empty, with the finish reason {named or 'length'}.")


def _is_filled(usage: dict[str, Any], sent: Sent) -> bool:
    if usage.get("completion_tokens") or 0 < sent.output_tokens < _LEAST_ASKED:
        return False
    counted = usage.get("prompt_tokens")
    tokens = max(counted if type(counted) is int else 0, sent.input_tokens)
    return tokens >= sent.window * _FILLED > 0
