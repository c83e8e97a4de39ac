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


def smaller(shaping: Shaping, overflow: Overflow, limit: Limit, memo: Memo) -> Shaping | None:
    """Decide anew with what the upstream just said (`limit` holds what was learned). None when nothing smaller
    can be sent. If the input alone fits, `max_tokens` is lowered and no history goes."""
    if (lowered := _less_output(shaping, overflow)) is not None:
        return lowered
    factor = _factor(shaping, overflow)
    conversation = history(shaping.request.messages, shaping.request.extras, memo)
    cap = _cap(shaping, overflow, factor)
    again = decide(shaping.request, conversation, shaping.policy, limit, factor, memo, cap=cap)
    return again if again.plan.fits and again.plan.sent < shaping.plan.sent else None


def _less_output(shaping: Shaping, overflow: Overflow) -> Shaping | None:
    """The same messages with a lower `max_tokens`, where the output is what does not fit."""
    asked = shaping.max_tokens or shaping.request.max_tokens
    if not asked or overflow.limit is None or overflow.input_tokens is None or overflow.lower_bound:
        return None
    room = int((overflow.limit - overflow.input_tokens) * _MARGIN)
    if overflow.input_tokens >= overflow.limit // 2 or not 0 < room < asked:
        return None
    return msgspec.structs.replace(shaping, max_tokens=room)


def _factor(shaping: Shaping, overflow: Overflow) -> float:
    """The upstream's own count, where it gave one, beats any estimate."""
    counted = overflow.input_tokens or (overflow.actual if overflow.actual_kind == "input" else None)
    if counted is None or overflow.lower_bound or shaping.plan.sent <= 0:
        return shaping.factor
    return max(shaping.factor, counted / shaping.plan.sent)


def _cap(shaping: Shaping, overflow: Overflow, factor: float) -> int:
    """The most the next try may have, in the upstream's tokens."""
    sent = round(shaping.plan.sent * factor)
    if overflow.limit is None:
        return int(sent * _STEP)
    known = overflow.limit - min(shaping.budget.reserved, overflow.limit // 2)
    # An estimate that said it fits although it did not is off by an unknown amount: go clearly below what was sent.
    unsure = factor == shaping.factor and sent <= known
    return int((sent * _STEP if unsure else known) * _MARGIN)
