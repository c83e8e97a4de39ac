"""What the upstream itself counted for the beginning of a conversation: the difference between an estimate and a
count, where the estimate stands within its own error of the budget.

A request that fits must not be touched because an estimate is a few percent high. An answer's usage counts the whole
request, and the next request of the conversation begins with the same messages, so its size is that count plus an
estimate of what is new. Only "send it as it is" is decided by this; what a shaped request looks like never is, so
replicas that saw different answers still shape alike.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from proxy.context.edits import Plan
from proxy.context.views import Memo
from proxy.exchange.shape import Shaping
from proxy.wire.chat import ChatRequest

# How far an estimate may be over the budget and still be doubted: its 95th percentile error over mixed
# conversations (docs/calibration.md). Beyond, it is believed.
DOUBT = 1.10
# Conversations that are far from their budget need no anchor.
_NEAR = 0.5
# The estimate of what is new since has an error too; where it alone decides, asking the upstream costs less.
_CLOSE = 1.01
# How many messages may have come since the anchored request; a step of an agent adds two to a dozen.
_REACH = 64

class Anchors:
    """Counts by conversation beginnings. In this process only, and bounded: without one the estimate decides."""

    def __init__(self, memo: Memo) -> None:
        self._counts: Memo = Memo(20_000)
        self._memo = memo

    def remember(self, upstream: str, shaping: Shaping, tokens: int) -> None:
        """The upstream counted `tokens` for the request as it was received."""
        if shaping.counted(shaping.plan.original) < shaping.budget.usable * _NEAR:
            return
        *_, key = _keys(upstream, shaping.request)
        self._counts.put(key, tokens)

    def as_it_is(self, upstream: str, shaping: Shaping) -> Shaping:
        """The same decision, or to send the request as it was received where it fits, or may well fit."""
        if not _doubtful(shaping):
            return shaping
        known = self._counted(upstream, shaping)
        fits = known <= shaping.budget.usable * _CLOSE if known is not None else _worth_trying(shaping)
        return msgspec.structs.replace(shaping, plan=_untouched(shaping.plan)) if fits else shaping

    def _counted(self, upstream: str, shaping: Shaping) -> int | None:
        """Tokens of the request by the newest count of a beginning of it, or None."""
        messages = shaping.request.messages
        keys = list(_keys(upstream, shaping.request))
        for length in range(len(messages), max(-1, len(messages) - _REACH), -1):
            tokens: int | None = self._counts.get(keys[length])
            if tokens is not None:
                new = sum(view.tokens for view in self._memo.views(messages[length:]))
                return tokens + shaping.counted(new)
        return None


def _doubtful(shaping: Shaping) -> bool:
    """Shaped for its tokens alone, by an estimate that is within its own error of the budget."""
    plan, rules = shaping.plan, shaping.policy.shaping
    windows = rules.max_messages or rules.summarize_after_messages or rules.truncate == "always"
    if not plan.edits or shaping.policy.managed or windows:
        return False
    return shaping.counted(plan.original) <= shaping.budget.usable * DOUBT


def _worth_trying(shaping: Shaping) -> bool:
    """With no count of this conversation yet the upstream is asked, once: its refusal is a count too. Not against
    an operator's own budget, which nobody enforces but us."""
    return shaping.limit.trusted and shaping.budget.usable >= shaping.budget.context_size - shaping.budget.reserved


def _untouched(plan: Plan) -> Plan:
    return Plan(plan.original, plan.original, plan.budget, True, unpin=plan.unpin, announce=plan.announce)


def _keys(upstream: str, request: ChatRequest) -> Iterator[tuple[object, ...]]:
    """A key for each beginning of the conversation, from none of its messages to all."""
    key = hash((upstream, request.model, *(bytes(extra) for extra in request.extras)))
    yield (key,)
    for raw in request.messages:
        key = hash((key, bytes(raw)))
        yield (key,)
