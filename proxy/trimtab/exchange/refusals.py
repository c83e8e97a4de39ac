"""What a client reads when its conversation cannot be sent: one error, with the figures and what to do next.

It begins with words by which clients recognize an overflow, so that their own fallbacks work ("prompt is too long",
"this model's maximum context length is", the code `context_length_exceeded`). `tests/exchange/test_refusals.py` holds
the patterns of LiteLLM, langchain-openai and pi.
"""

from __future__ import annotations

from trimtab.context.edits import Breakdown
from trimtab.errors import ConversationTooLong
from trimtab.exchange.decide import Shaping, irreducible
from trimtab.overflow.classify import Overflow

_TOO_LONG = "The prompt is too long: this model's maximum context length is"
_NEXT = {
    "system": "Shorten the system prompt, or use a model with a larger context window.",
    "tools": "Send fewer tools, or use a model with a larger context window.",
    "fields": "Shorten the response format, or use a model with a larger context window.",
    "question": "Start a new chat for the next step, or shorten the question; what was built so far remains.",
}


def refusal(shaping: Shaping) -> ConversationTooLong | None:
    """The error for a conversation that cannot be made to fit, or None. A guessed limit never refuses."""
    part = irreducible(shaping)
    if part is None:
        return None
    budget = shaping.budget
    room = "" if budget.most >= budget.context_size else f", of which {budget.most:,} can be used for the input"
    if budget.most == shaping.limit.budget:
        room += " (the budget that the operator has set)"
    return _error(f"{_TOO_LONG} {budget.context_size:,} tokens{room}. {_kept(shaping, part)}", shaping, part)


def still_too_long(shaping: Shaping, overflow: Overflow) -> ConversationTooLong:
    """The error where nothing smaller can be sent, or the smaller request was too long as well. The figures are the
    upstream's, as far as it gave any."""
    known = overflow.limit is not None or shaping.limit.trusted
    limit = overflow.limit or shaping.budget.context_size
    size = f"{limit:,} tokens" if known else f"not known (assumed: {limit:,} tokens)"
    part = None if shaping.plan.fits else shaping.plan.breakdown
    kept = "The system prompt, the tools and the current question cannot be shortened."
    text = f"{_TOO_LONG} {size}, and {_refused(shaping, overflow)}. {_kept(shaping, part) if part else kept}"
    reported = {"reported": overflow.actual, "upstream_limit": overflow.limit, "upstream": overflow.message}
    return _error(text, shaping, part, {name: value for name, value in reported.items() if value is not None})


def interrupted(shaping: Shaping, overflow: Overflow) -> ConversationTooLong:
    """The error where the client has part of an answer, so that no second one can be sent to it."""
    limit = overflow.limit or shaping.budget.context_size
    return ConversationTooLong(
        f"{_TOO_LONG} {limit:,} tokens, and the upstream found this prompt longer when its answer had already begun. "
        "Send it again: it will be shortened to the limit just learned.",
        param=shaping.dialect.listed,
        detail={"upstream": overflow.message},
    )


def _refused(shaping: Shaping, overflow: Overflow) -> str:
    """What the upstream refused, by its own count where it gave one."""
    request = "the shortened request" if shaping.plan.edits else "this request"
    if overflow.actual is None:
        return f"the upstream refused {request} of about {shaping.counted(shaping.plan.sent):,} tokens"
    least = "at least " if overflow.lower_bound else ""
    output = ", the requested output included" if overflow.actual_kind == "total" else ""
    return f"the upstream counted {least}{overflow.actual:,} tokens in {request}{output}"


def _kept(shaping: Shaping, part: Breakdown) -> str:
    """What cannot be shortened, and the size of each part that is there."""
    beside = "tools" if shaping.request.has_tools else "response format and other fields"
    sizes = {"system prompt": part.system, beside: part.tools, "current question": part.question}
    named = [f"the {name} ({shaping.counted(size):,})" for name, size in sizes.items() if shaping.counted(size)]
    parts = " and ".join(filter(None, (", ".join(named[:-1]), *named[-1:])))
    return f"About {shaping.counted(part.total):,} tokens cannot be shortened: {parts}."


def _error(
    text: str, shaping: Shaping, part: Breakdown | None, reported: dict[str, object] | None = None
) -> ConversationTooLong:
    tokens, budget = shaping.counted, shaping.budget
    sizes = {
        "estimated": tokens(shaping.plan.original),
        "limit": budget.most,
        "context_size": budget.context_size,
        "reserved_output": budget.reserved,
    }
    largest = "question"
    if part is not None:
        parts = {"system": tokens(part.system), "tools": tokens(part.tools), "question": tokens(part.question)}
        largest = max(parts, key=lambda name: parts[name])
        if largest == "tools" and not shaping.request.has_tools:
            largest = "fields"
        sizes |= parts
    detail = {"tokens": sizes, "limit_source": shaping.limit.source, **(reported or {})}
    return ConversationTooLong(f"{text} {_NEXT[largest]}", param=shaping.dialect.listed, detail=detail)
