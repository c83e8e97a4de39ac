"""The one smaller try after an upstream said the prompt is too long: a different request, or none."""

from __future__ import annotations

import msgspec

from trimtab.context.read.views import Memo
from trimtab.exchange.shape import Shaping, decide
from trimtab.limits import Limit
from trimtab.overflow.classify import Overflow

# Shares of what was sent that the next try may have, when the upstream did not say how much that was: an estimate
# that said it fits is off by an unknown amount, so clearly less; but less by a little where no more can be given up.
_STEPS = (0.75, 0.9, 0.97)
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

    def planned(factor: float, cap: int | None) -> Shaping | None:
        again = decide(shaping.request, shaping.conversation, shaping.policy, learned.limit, factor, memo, cap=cap)
        return again if again.plan.fits and again.plan.sent < shaping.plan.sent else None

    counted = _counted(shaping, overflow)
    if counted is None or overflow.limit is None:
        caps = (_cap(shaping, overflow, int(shaping.plan.sent * learned.factor * step)) for step in _STEPS)
        return next(filter(None, (planned(learned.factor, cap) for cap in caps)), None)
    # As the conversation's next request will be planned, so that its prefix is this one's; only where that does
    # not fit by the upstream's own count of this very conversation, by that count.
    again = planned(learned.factor, None)
    if again is not None and again.plan.sent * counted <= again.budget.usable:
        return again
    return planned(counted / _MARGIN, None)


def _less_output(shaping: Shaping, overflow: Overflow) -> Shaping | None:
    """The same messages with a lower `max_tokens`, where the output is what does not fit."""
    asked = shaping.max_tokens or shaping.request.max_tokens
    if not asked or overflow.limit is None or overflow.input_tokens is None or overflow.lower_bound:
        return None
    room = int((overflow.limit - overflow.input_tokens) * _MARGIN)
    if overflow.input_tokens >= overflow.limit // 2 or not 0 < room < asked:
        return None
    return msgspec.structs.replace(shaping, max_tokens=room)


def _counted(shaping: Shaping, overflow: Overflow) -> float | None:
    """The upstream's own count over the estimate of what it counted; None where it gave none."""
    counted = overflow.input_tokens or (overflow.actual if overflow.actual_kind == "input" else None)
    if counted is None or overflow.lower_bound or shaping.plan.sent <= 0:
        return None
    return counted / shaping.plan.sent


def _cap(shaping: Shaping, overflow: Overflow, sent: int) -> int:
    """The most the next try may have, in the upstream's tokens: `sent`, and no more than the limit it named."""
    if overflow.limit is None:
        return sent
    return min(sent, int((overflow.limit - min(shaping.budget.reserved, overflow.limit // 2)) * _MARGIN))
