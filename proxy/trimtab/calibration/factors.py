"""The factors of every (upstream, model) this process has heard from, and their sharing between replicas.

A factor that moves is written to the store; every SYNC_S the store is looked at again, and a factor that has
moved more often than ours is taken over. Replicas so apply the same number but for the seconds in between.
A factor grows stale: when nothing was heard for a while, or when requests have outgrown what it was learned
from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from trimtab.calibration.factor import Calibration, believed, observe
from trimtab.calibration.priors import prior

STALE_S = 300.0
OUTGROWN = 1.25  # requests larger than the largest observed, by this, are new ground
_MOST = 4_096  # pairs held: names come from clients
_MOST_STEPS = 64  # GRID**64 is above the largest factor that is applied

# Called with what happened, the upstream, the model, and numbers that explain it.
Notify = Callable[[Literal["usage_ignored", "factor_moved"], str, str, str], None]


class Heard(msgspec.Struct, frozen=True):
    """One pair's state and when it was last fed, in clock seconds."""

    state: Calibration
    at: float


class Calibrations:
    """Factors by (upstream, model)."""

    def __init__(self, *, clock: Callable[[], float], notify: Notify) -> None:
        self._clock, self._notify = clock, notify
        self._heard: dict[tuple[str, str], Heard] = {}
        self._priors: dict[str, float] = {}

    def factor(self, upstream: str, model: str) -> float:
        """Tokens per estimated token: the applied factor, or the family's prior."""
        heard = self._heard.get((upstream, model))
        return heard.state.factor if heard else self._prior(model)

    def observe(self, upstream: str, model: str, estimated: int, actual: object, *, refused: bool = False) -> bool:
        """Learn from one response, or from a refusal that counted the request. Gives whether the factor moved;
        what is not to be believed is counted as an event."""
        tokens = believed(estimated, actual)
        if tokens is None:
            self._notify("usage_ignored", upstream, model, f"estimated {estimated}, {type(actual).__name__}")
            return False
        before = self.state(upstream, model)
        after = observe(before, estimated, tokens, refused=refused)
        if after is None:
            return False
        self._keep(upstream, model, Heard(after, self._clock()))
        moved = before is None or after.step != before.step
        if moved:
            self._notify("factor_moved", upstream, model, f"{after.factor:.2f}")
        return moved

    def needs_usage(self, upstream: str, model: str, estimated: int = 0) -> bool:
        """Is the factor unknown or stale, so that a stream should be asked for its usage? `estimated` tokens
        of the request at hand: far larger ones than those learned from are worth asking."""
        heard = self._heard.get((upstream, model))
        if heard is None or not heard.state.settled:
            return True
        return self._clock() - heard.at > STALE_S or estimated > OUTGROWN * heard.state.largest

    def state(self, upstream: str, model: str) -> Calibration | None:
        heard = self._heard.get((upstream, model))
        return heard.state if heard else None

    def pairs(self) -> list[tuple[str, str]]:
        return list(self._heard)

    def dump(self, upstream: str, model: str) -> bytes | None:
        """What other replicas need to know of a pair."""
        state = self.state(upstream, model)
        return msgspec.json.encode(state) if state else None

    def merge(self, upstream: str, model: str, shared: bytes) -> None:
        """Take over a replica's state where it is ahead of ours. What cannot be read is no state."""
        try:
            theirs = msgspec.json.decode(shared, type=Calibration)
        except msgspec.DecodeError:
            return
        ours = self.state(upstream, model)
        if not theirs.seen or abs(theirs.step) > _MOST_STEPS:
            return
        if ours is None or (theirs.moves, theirs.step) > (ours.moves, ours.step):
            self._keep(upstream, model, Heard(theirs, self._clock()))

    def _keep(self, upstream: str, model: str, heard: Heard) -> None:
        if len(self._heard) >= _MOST and (upstream, model) not in self._heard:
            del self._heard[next(iter(self._heard))]
        self._heard[upstream, model] = heard

    def _prior(self, model: str) -> float:
        factor = self._priors.get(model)
        if factor is None:
            if len(self._priors) >= _MOST:
                self._priors.clear()
            factor = self._priors[model] = prior(model)
        return factor
