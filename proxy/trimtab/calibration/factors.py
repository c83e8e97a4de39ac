"""The factors of every (upstream, model) this process has an answer from, and the priors for all others.

A factor that moves is written to the store; replicas read it and take over a factor that has moved more often than
their own (`limits.sharing`), so they apply the same number but for some seconds. A factor is stale when no count came
in for a while, or when requests have outgrown the ones it was learned from.

A prior is the factor before the first count, by model family. Estimates are fitted on o200k, so OpenAI's models since
gpt-4o stand at 1. The other priors are the 80th percentile of (family's tokens / o200k tokens) over recorded agent
runs (docs/calibration.md): a clearing that comes one request too early is cheaper than a refusal. No Claude tokenizer
has been published since Claude 2; what its API counts is 1.3 to 1.7 times o200k. The first count replaces a prior.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import msgspec
from cachetools import LRUCache

from trimtab.calibration.factor import FactorState, believed, observe

STALE_S = 300.0
OUTGROWN = 1.25  # a request larger than the largest observed one by this is new ground
UNKNOWN = 1.10  # the prior of a family that is not listed
FAMILIES: tuple[tuple[re.Pattern[str], float], ...] = tuple(
    (re.compile(pattern), factor)
    for pattern, factor in (
        (r"claude", 1.50),
        (r"gpt-oss|gpt-4o|gpt-4\.|gpt-[5-9]|chatgpt|codex|\bo[134](-|$)", 1.00),
        (r"gpt-4(?![o.])|gpt-3\.5|gpt-35", 1.02),
        (r"qwen|qwq", 1.15),
        (r"llama", 1.03),
        (r"deepseek", 1.06),
        (r"gemma|gemini", 1.20),
        (r"mi[sx]tral|ministral|codestral|devstral|magistral|pixtral", 1.20),
    )
)
_MOST_PAIRS = 4_096  # (upstream, model) pairs that are held: the names come from clients
_MOST_STEPS = 64  # GRID**64 is above the largest factor that is applied

# Called with the kind of event, the upstream and the model.
Notify = Callable[[Literal["usage_ignored", "factor_moved"], str, str], None]


class _Held(msgspec.Struct, frozen=True):
    state: FactorState
    at: float  # clock seconds of the last count


class Factors:
    """Factors by (upstream, model). `clock` gives seconds."""

    def __init__(self, *, clock: Callable[[], float], notify: Notify) -> None:
        self._clock, self._notify = clock, notify
        self._held: LRUCache[tuple[str, str], _Held] = LRUCache(_MOST_PAIRS)

    def factor(self, upstream: str, model: str) -> float:
        """The applied factor, or the family's prior. Quick: it runs on every request."""
        held = self._held.get((upstream, model))
        return held.state.factor if held else prior(model)

    def observe(self, upstream: str, model: str, estimated: int, actual: object, *, refused: bool = False) -> bool:
        """Learn from the count in an answer, or in a refusal. True when the factor moved. A count that is not
        believed is an event."""
        tokens = believed(estimated, actual)
        if tokens is None:
            self._notify("usage_ignored", upstream, model)
            return False
        before = self._state(upstream, model)
        after = observe(before, estimated, tokens, refused=refused)
        if after is None:
            return False
        self._held[upstream, model] = _Held(after, self._clock())
        moved = before is None or after.step != before.step
        if moved:
            self._notify("factor_moved", upstream, model)
        return moved

    def is_stale(self, upstream: str, model: str, estimated: int) -> bool:
        """True when a count is worth asking for: the factor is unknown, no count came in for STALE_S seconds, or a
        request of `estimated` tokens is far larger than those it was learned from."""
        held = self._held.get((upstream, model))
        if held is None or not held.state.settled:
            return True
        return self._clock() - held.at > STALE_S or estimated > OUTGROWN * held.state.largest

    def dump(self, upstream: str, model: str) -> bytes | None:
        """The pair's state for other replicas, or None before its first count."""
        state = self._state(upstream, model)
        return msgspec.json.encode(state) if state else None

    def merge(self, upstream: str, model: str, shared: bytes) -> None:
        """Take over another replica's state where it is ahead of ours. What is not a state is ignored."""
        try:
            theirs = msgspec.json.decode(shared, type=FactorState)
        except msgspec.DecodeError:
            return
        ours = self._state(upstream, model)
        if not theirs.seen or abs(theirs.step) > _MOST_STEPS:
            return
        if ours is None or (theirs.moves, theirs.step) > (ours.moves, ours.step):
            self._held[upstream, model] = _Held(theirs, self._clock())

    def _state(self, upstream: str, model: str) -> FactorState | None:
        held = self._held.get((upstream, model))
        return held.state if held else None


@lru_cache(_MOST_PAIRS)
def prior(model: str) -> float:
    """The factor for a model without any count, by its name. Of a distilled model (`deepseek-r1-distill-llama`) the
    family named last is the tokenizer's."""
    name = model.lower()
    named = [(m.start(), factor) for pattern, factor in FAMILIES for m in pattern.finditer(name)]
    return max(named)[1] if named else UNKNOWN
