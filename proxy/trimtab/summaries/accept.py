"""Whether an answer is taken for a summary. One table of reasons to refuse it; the first that holds is
counted.

What is refused is never stored: the conversation is shaped without it, which loses less than a bad summary
would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from trimtab.context.estimate.tokens import text_tokens
from trimtab.summaries.completion import Completion
from trimtab.summaries.script import foreign

LEAST = 12  # tokens: about one short sentence; "NOTHING", "OK" and "I can't help with that." are none
OVERSIZE = 2  # times what was asked for; models overrun a length given in words, and the plan leaves slack

# Reasons to end, without case: OpenAI's, Anthropic's, Gemini's, Mistral's and Zhipu's for an answer at its bound; then
# OpenRouter's, vLLM's, DeepSeek's and Zhipu's for one that broke off.
_CUT_OFF = frozenset({"length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"})
_BROKEN_OFF = frozenset({"error", "abort", "insufficient_system_resource", "network_error"})
_FILTERED = frozenset({"content_filter", "refusal", "safety", "recitation", "prohibited_content", "sensitive"})


class Replaced(msgspec.Struct, frozen=True):
    """What the summary stands for."""

    tokens: int  # estimated, of the text that was read: the earlier summary and the messages
    max_tokens: int  # what was asked for
    user_texts: list[str]  # to tell the language; empty: it is not judged


REASONS: Final[dict[str, Callable[[Completion, Replaced], bool]]] = {
    "tool_call": lambda answer, replaced: answer.has_tool_call,
    "cut_off": lambda answer, replaced: _ended(answer) in _CUT_OFF | _BROKEN_OFF,
    "filtered": lambda answer, replaced: _ended(answer) in _FILTERED,
    "empty": lambda answer, replaced: not answer.text.strip(),
    "too_short": lambda answer, replaced: text_tokens(answer.text.strip()) < LEAST,
    "not_smaller": lambda answer, replaced: text_tokens(answer.text) >= replaced.tokens,
    "too_long": lambda answer, replaced: text_tokens(answer.text) > OVERSIZE * replaced.max_tokens,
    "language": lambda answer, replaced: foreign(answer.text, replaced.user_texts),
}


def refusal(answer: Completion, replaced: Replaced) -> str | None:
    """Why the answer is no summary, or None when it is one."""
    return next((reason for reason, holds in REASONS.items() if holds(answer, replaced)), None)


def _ended(answer: Completion) -> str:
    return (answer.finish_reason or "").lower()
