"""What an upstream counted for a conversation it has seen: the difference between an estimate and a count.

The calibration of a model (`limits`) is an average over conversations, and what they are made of differs by more than
models do. An answer's usage counts one conversation exactly, and its next request begins with the same messages.
Two things follow from that count, and nothing else:

- A request that fits is not touched because an estimate is a few percent high: its size is the count plus an
  estimate of what is new since.
- A conversation being shaped keeps the factor it began with, so its plan stands still while the model's moves.

Kept in this process, bounded, without any text. A replica that has not seen the conversation uses the model's factor.
"""

from __future__ import annotations

import math

import msgspec

from trimtab.calibration.factor import believed
from trimtab.context.edits import Plan
from trimtab.context.read.history import History
from trimtab.context.read.views import Memo
from trimtab.exchange.shape import Shaping

# How far an estimate may be over the budget and still be doubted: its 95th percentile error over mixed
# conversations (docs/calibration.md). Beyond, it is believed.
DOUBT = 1.10
# The estimate of what is new since has an error too; where it alone decides, asking the upstream costs less.
_CLOSE = 1.01
# Conversations that are far from their budget need no anchor.
_NEAR = 0.5
# How many messages may have come since the anchored request; a step of an agent adds two to a dozen.
_REACH = 64
# A factor in use is kept while the counts stay between these shares of what it predicts: below, room is wasted;
# above, a request sized to the budget would be refused.
_LOW, _HIGH = 0.85, 1.02
_MARGIN, _GRID = 1.015, 1.025  # as the model's own calibration has them (limits.calibration)


class Anchor(msgspec.Struct, frozen=True, gc=False):
    """One request that was counted. `ratio` is counted over estimated tokens of what was sent; `tokens` the count,
    where it was sent as received; `factor` what was in use, where it was shaped."""

    ratio: float
    tokens: int | None = None
    factor: float | None = None


class Anchored(msgspec.Struct, frozen=True, gc=False):
    """The newest anchor of a conversation, and the estimated tokens that are new since (0 without one)."""

    anchor: Anchor | None = None
    new: int = 0


UNKNOWN = Anchored()


class Anchors:
    """Counts by conversation beginnings."""

    def __init__(self) -> None:
        self._anchors = Memo(20_000)

    def find(self, upstream: str, model: str, conversation: History) -> Anchored:
        """What is known of this conversation."""
        keys = _keys(upstream, model, conversation)
        views, new = conversation.views, 0
        for length in range(len(views), max(-1, len(views) - _REACH), -1):
            anchor: Anchor | None = self._anchors.get(keys[length])
            if anchor is not None:
                return Anchored(anchor, new)
            new += views[length - 1].tokens if length else 0
        return UNKNOWN

    def remember(self, upstream: str, shaping: Shaping, tokens: int) -> None:
        """The upstream counted `tokens` for what was sent of this conversation."""
        plan, conversation = shaping.plan, shaping.conversation
        if believed(plan.sent, tokens) is None or not near(conversation, shaping.factor, shaping.budget.usable):
            return
        ratio = tokens / plan.sent
        anchor = Anchor(ratio, factor=shaping.factor) if plan.edits else Anchor(ratio, tokens=tokens)
        self._anchors.put(_keys(upstream, shaping.request.model, conversation)[-1], anchor)


def near(conversation: History, factor: float, usable: int) -> bool:
    """Whether a conversation is large enough for its budget that an anchor matters."""
    return conversation.tokens * factor > usable * _NEAR


def factor_of(found: Anchored, model_factor: float) -> float:
    """The factor to plan a conversation with: the one it is being shaped with, else its own, else the model's."""
    anchor = found.anchor
    if anchor is None:
        return model_factor
    if anchor.factor is not None and _LOW <= anchor.ratio / anchor.factor <= _HIGH:
        return anchor.factor
    steps = math.ceil(math.log(anchor.ratio * _MARGIN) / math.log(_GRID))
    return float(_GRID**steps)


def as_it_is(shaping: Shaping, found: Anchored) -> Shaping:
    """The same decision, or to send the request as it was received where it fits, or may well fit."""
    if not _doubtful(shaping):
        return shaping
    anchor = found.anchor
    if anchor is None:
        fits = _worth_trying(shaping)
    elif anchor.tokens is None:
        return shaping
    else:
        fits = anchor.tokens + round(found.new * anchor.ratio) <= shaping.budget.usable * _CLOSE
    return msgspec.structs.replace(shaping, plan=_untouched(shaping.plan)) if fits else shaping


def _doubtful(shaping: Shaping) -> bool:
    """Shaped for its tokens alone, by an estimate that is within its own error of the budget."""
    plan, policy = shaping.plan, shaping.policy
    rules = policy.shaping
    windows = rules.max_messages or rules.summarize_after_messages or rules.truncate == "always"
    if not plan.edits or policy.managed or windows:
        return False
    return shaping.counted(plan.original) <= shaping.budget.usable * DOUBT


def _worth_trying(shaping: Shaping) -> bool:
    """With no count of this conversation yet the upstream is asked, once: its refusal is a count too. Not against
    an operator's own budget, which nobody enforces but us."""
    return shaping.limit.trusted and shaping.budget.usable >= shaping.budget.context_size - shaping.budget.reserved


def _untouched(plan: Plan) -> Plan:
    """Nothing is taken out yet; the summary that was wanted is the next one needed."""
    ahead = plan.summary or plan.ahead
    return Plan(plan.original, plan.original, plan.budget, True, ahead=ahead, unpin=plan.unpin, announce=plan.announce)


def _keys(upstream: str, model: str, conversation: History) -> list[int]:
    """A key for each beginning of the conversation, from none of its messages to all."""
    key = hash((upstream, model, conversation.extras))
    keys = [key]
    for view in conversation.views:
        key = hash((key, view.digest))
        keys.append(key)
    return keys
