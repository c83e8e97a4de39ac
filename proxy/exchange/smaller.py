"""The one smaller try after an upstream said the prompt is too long: a different request, or none."""

from __future__ import annotations

import msgspec

from proxy.context.plan import history
from proxy.context.views import Memo
from proxy.exchange.shape import Shaping, decide
from proxy.limits import Limit
from proxy.upstream.overflow import Overflow

# How much smaller the next try is when the upstream named no number: enough to matter, most of the rest stays.
_STEP = 0.75
_MARGIN = 0.98  # of a limit just learned: the estimate's own imprecision


class Learned(msgspec.Struct, frozen=True):
    """What is known of the model now that the overflow was learned from."""

    limit: Limit
    factor: float


def smaller(shaping: Shaping, overflow: Overflow, learned: Learned, memo: Memo) -> Shaping | None:
    """Decide anew with what the upstream just said. None when nothing smaller can be sent. If the input alone
    fits, `max_tokens` is lowered and no history goes."""
    if (lowered := _less_output(shaping, overflow)) is not None:
        return lowered
    conversation = history(shaping.request.messages, shaping.request.extras, memo)
    factor = max(learned.factor, _counted(shaping, overflow))
    for cap, scale in ((None, learned.factor), (_cap(shaping, overflow, factor), factor)):
        # First as the conversation's next request will be planned, so that its prefix is this one's; only where
        # that would not fit by the upstream's own count, below it.
        again = decide(shaping.request, conversation, shaping.policy, learned.limit, scale, memo, cap=cap)
        if not again.plan.fits or again.plan.sent >= shaping.plan.sent:
            continue
        if cap is not None or (overflow.limit is not None and again.plan.sent * factor <= again.budget.usable):
            return again
    return None


def _less_output(shaping: Shaping, overflow: Overflow) -> Shaping | None:
    """The same messages with a lower `max_tokens`, where the output is what does not fit."""
    asked = shaping.max_tokens or shaping.request.max_tokens
    if not asked or overflow.limit is None or overflow.input_tokens is None or overflow.lower_bound:
        return None
    room = int((overflow.limit - overflow.input_tokens) * _MARGIN)
    if overflow.input_tokens >= overflow.limit // 2 or not 0 < room < asked:
        return None
    return msgspec.structs.replace(shaping, max_tokens=room)


def _counted(shaping: Shaping, overflow: Overflow) -> float:
    """The upstream's own count over the estimate of what it counted; 0 where it gave none."""
    counted = overflow.input_tokens or (overflow.actual if overflow.actual_kind == "input" else None)
    if counted is None or overflow.lower_bound or shaping.plan.sent <= 0:
        return 0.0
    return counted / shaping.plan.sent


def _cap(shaping: Shaping, overflow: Overflow, factor: float) -> int:
    """The most the next try may have, in the upstream's tokens."""
    sent = round(shaping.plan.sent * factor)
    if overflow.limit is None:
        return int(sent * _STEP)
    known = overflow.limit - min(shaping.budget.reserved, overflow.limit // 2)
    # An estimate that said it fits although it did not is off by an unknown amount: go clearly below what was sent.
    unsure = not _counted(shaping, overflow) and sent <= known
    return int((sent * _STEP if unsure else known) * _MARGIN)
