"""What conversations were counted at: the upstream's own count of one, kept for its next request.

A model's factor (`factors`) is an average over conversations, and those differ by more than models do. The usage of
an answer counts one conversation exactly, and its next request begins with the same messages. So a request that fits
can be recognized by its count plus an estimate of what is new, and a conversation that is being shaped keeps the
factor it began with, so that its plan does not change when the model's factor moves.

Counts are kept in this process, bounded, without text. A replica that has not seen the conversation uses the model's
factor.
"""

from __future__ import annotations

import math

import msgspec

from trimtab.calibration.factor import GRID, believed
from trimtab.context.read.history import History
from trimtab.context.read.memo import Memo

# Conversations that are far from their budget need no count.
_NEAR = 0.5
# How many messages may have come since the counted request; a step of an agent adds two to a dozen.
_REACH = 64
_MOST_MESSAGES = 20_000  # of a conversation; naming the beginnings of a longer one takes too long
# A factor in use is kept while the counts stay between these shares of what it predicts: below, room is wasted;
# above, a request sized to the budget would be refused.
_LOW, _HIGH = 0.85, 1.02
_MARGIN = 1.015  # as the model's own calibration has it (`factor`)


class Count(msgspec.Struct, frozen=True, gc=False):
    """One counted request. `ratio` is counted over estimated tokens of what was sent; `tokens` the count, where it
    was sent as received; `factor` what it was planned with, where it was shaped."""

    ratio: float
    tokens: int | None = None
    factor: float | None = None


class LastCount(msgspec.Struct, frozen=True, gc=False):
    """The newest count of a conversation, and the estimated tokens that are new since then (0 without a count)."""

    count: Count | None = None
    new: int = 0


NO_COUNT = LastCount()


class Counts:
    """Counts by conversation beginnings. One per process."""

    def __init__(self) -> None:
        self._counts = Memo(20_000)

    def find(self, upstream: str, model: str, history: History) -> LastCount:
        """The newest count of this conversation, of any of its beginnings within `_REACH` messages of its end."""
        views, new = history.views, 0
        for back, chain in enumerate(reversed(history.chains(_REACH)[-_REACH:])):
            count: Count | None = self._counts.get((upstream, model, history.extras, chain))
            if count is not None:
                return LastCount(count, new)
            new += views[-1 - back].tokens if back < len(views) else 0
        return NO_COUNT

    def remember(self, upstream: str, model: str, history: History, count: Count) -> None:
        """Keep the upstream's count of this conversation."""
        self._counts.put((upstream, model, history.extras, history.chains(0)[-1]), count)


def counted(estimated: int, tokens: int, factor: float | None) -> Count | None:
    """The count of a request whose sent messages were estimated at `estimated` tokens and counted at `tokens`;
    `factor` is what it was shaped with, None where it was sent as received. None for a count that is not believed."""
    if believed(estimated, tokens) is None:
        return None
    ratio = tokens / estimated
    return Count(ratio, tokens=tokens) if factor is None else Count(ratio, factor=factor)


def near(history: History, factor: float, usable: int) -> bool:
    """True when a conversation is so large, for its budget of `usable` tokens, that its count matters."""
    return history.tokens * factor > usable * _NEAR and len(history.views) <= _MOST_MESSAGES


def factor_of(last: LastCount, model_factor: float, *, binds_thinking: bool = False) -> float:
    """The factor to plan a conversation with: the one it is being shaped with, else its own, else the model's. Where
    the model binds its thinking to what was sent before it, one that leaves room unused is kept too."""
    count = last.count
    if count is None:
        return model_factor
    low = 0.0 if binds_thinking else _LOW
    if count.factor is not None and low <= count.ratio / count.factor <= _HIGH:
        return count.factor
    steps = math.ceil(math.log(count.ratio * _MARGIN) / math.log(GRID))
    return float(GRID**steps)
