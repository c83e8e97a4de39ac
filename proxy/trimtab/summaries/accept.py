"""Whether an answer is accepted as a summary: one table of reasons to reject it, and the first that holds is counted.

A rejected answer is never stored. The conversation is shaped without it, which loses less than a bad summary would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from trimtab.context.estimate.tokens import text_tokens
from trimtab.summaries.completion import Completion
from trimtab.summaries.script import is_foreign

LEAST = 12  # tokens, about one short sentence: more than "NOTHING", "OK" and "I can't help with that."
OVERSIZE = 2  # times what was asked for; models overrun a length given in words, and the plan leaves slack

# Finish reasons, without case. At the bound: OpenAI, Anthropic, Gemini, Mistral, Zhipu. Broken off: OpenRouter, vLLM,
# DeepSeek, Zhipu.
_CUT_OFF = frozenset({"length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"})
_BROKEN_OFF = frozenset({"error", "abort", "insufficient_system_resource", "network_error"})
_FILTERED = frozenset({"content_filter", "refusal", "safety", "recitation", "prohibited_content", "sensitive"})


class Source(msgspec.Struct, frozen=True):
    """What was summarized, and how large the summary should be."""

    tokens: int  # estimated, of the text that was read: the earlier summary and the messages
    max_tokens: int  # asked for
    user_texts: list[str]  # they show the language; empty: the language is not checked


REASONS: Final[dict[str, Callable[[Completion, Source], bool]]] = {
    "tool_call": lambda answer, source: answer.has_tool_call,
    "cut_off": lambda answer, source: _ended(answer) in _CUT_OFF | _BROKEN_OFF,
    "filtered": lambda answer, source: _ended(answer) in _FILTERED,
    "empty": lambda answer, source: not answer.text.strip(),
    "too_short": lambda answer, source: text_tokens(answer.text.strip()) < LEAST,
    "not_smaller": lambda answer, source: text_tokens(answer.text) >= source.tokens,
    "too_long": lambda answer, source: text_tokens(answer.text) > OVERSIZE * source.max_tokens,
    "language": lambda answer, source: is_foreign(answer.text, source.user_texts),
}


def rejection(answer: Completion, source: Source) -> str | None:
    """The reason to reject the answer, a key of `REASONS`; None when it is a summary."""
    return next((reason for reason, holds in REASONS.items() if holds(answer, source)), None)


def _ended(answer: Completion) -> str:
    return (answer.finish_reason or "").lower()
