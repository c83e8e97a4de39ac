"""The factors of every (upstream, model) this process has an answer from, and the priors for all others.

Each tenant has factors of its own: what one sends may be counted like nobody else's text (private-use characters count
four times their estimate). A tenant of whom nothing is known starts with the median of the others.

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
from collections.abc import Callable, Sequence
from functools import lru_cache
from statistics import median
from typing import Literal, TypeAlias

import msgspec
from lru import LRU

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
_MOST_TENANTS = 64  # of a pair
_MOST = 32_768  # of all pairs and tenants: 400 bytes each
_MOST_SHARED = 16  # tenants of a pair that replicas share: some 2 KB each
ALONE = 1.3  # how far, as a factor, the counts of a single tenant may move the others from the prior
_MOST_STEPS = 64  # GRID**64 is above the largest factor that is applied

# Called with the kind of event, the upstream and the model.
Notify = Callable[[Literal["usage_ignored", "factor_moved"], str, str], None]


class _Held(msgspec.Struct, frozen=True):
    state: FactorState
    at: float  # clock seconds of the last count


_Tenants: TypeAlias = "LRU[bytes, _Held]"


class Factors:
    """Factors by (upstream, model) and tenant. `clock` gives seconds."""

    def __init__(self, *, clock: Callable[[], float], notify: Notify, most: int = _MOST) -> None:
        """`most`: of all pairs and tenants."""
        self._clock, self._notify, self._most = clock, notify, most
        self._held: LRU[tuple[str, str], _Tenants] = LRU(_MOST_PAIRS)

    def factor(self, upstream: str, model: str, tenant: bytes = b"") -> float:
        """The tenant's applied factor, or what the others agree on, or the family's prior. Quick: it runs on every
        request."""
        tenants = self._held.get((upstream, model))
        if not tenants:
            return prior(model)
        own = tenants.get(tenant)
        if own is not None and (own.state.settled or len(tenants) == 1):
            return own.state.factor
        others = [held.state.factor for name, held in tenants.items() if name != tenant]
        return agreed(others, prior(model))

    def observe(
        self, upstream: str, model: str, estimated: int, actual: object, tenant: bytes = b"", *, refused: bool = False
    ) -> bool:
        """Learn from the count in an answer, or in a refusal. True when the tenant's factor moved. A count that is not
        believed is an event."""
        tokens = believed(estimated, actual)
        if tokens is None:
            self._notify("usage_ignored", upstream, model)
            return False
        tenants = self._of(upstream, model)
        held = tenants.get(tenant)
        before = held.state if held else None
        after = observe(before, estimated, tokens, refused=refused)
        if after is None:
            return False
        tenants[tenant] = _Held(after, self._clock())
        if held is None:
            self._make_room()
        moved = before is None or after.step != before.step
        if moved:
            self._notify("factor_moved", upstream, model)
        return moved

    def is_stale(self, upstream: str, model: str, estimated: int, tenant: bytes = b"") -> bool:
        """True when a count is worth asking for: the tenant's factor is unknown, no count came in for STALE_S seconds,
        or a request of `estimated` tokens is far larger than those it was learned from."""
        tenants = self._held.get((upstream, model))
        held = tenants.get(tenant) if tenants else None
        if held is None or not held.state.settled:
            return True
        return self._clock() - held.at > STALE_S or estimated > OUTGROWN * held.state.largest

    def dump(self, upstream: str, model: str) -> bytes | None:
        """The newest tenants' states for other replicas, or None before the first count."""
        tenants = self._held.get((upstream, model))
        if not tenants:
            return None
        newest = sorted(tenants.items(), key=lambda item: item[1].at)[-_MOST_SHARED:]
        return msgspec.json.encode({tenant.hex(): held.state for tenant, held in newest})

    def merge(self, upstream: str, model: str, shared: bytes) -> None:
        """Take over another replica's states where they are ahead of ours. What is not a state is ignored."""
        try:
            theirs = msgspec.json.decode(shared, type=dict[str, FactorState])
            states = [(bytes.fromhex(name), state) for name, state in theirs.items()]
        except ValueError:
            return
        tenants = self._of(upstream, model)
        for tenant, state in states[:_MOST_SHARED]:
            held = tenants.get(tenant)
            ours = held.state if held else None
            if not state.seen or abs(state.step) > _MOST_STEPS:
                continue
            if ours is None or (state.moves, state.step) > (ours.moves, ours.step):
                tenants[tenant] = _Held(state, self._clock())
                if held is None:
                    self._make_room()

    def _make_room(self) -> None:
        """Forget the pairs used least lately, where too much is held now that a tenant was added."""
        if len(self._held) * _MOST_TENANTS > self._most:
            while sum(map(len, self._held.values())) > self._most:
                self._held.popitem()

    def _of(self, upstream: str, model: str) -> _Tenants:
        tenants = self._held.get((upstream, model))
        if tenants is None:
            tenants = self._held[upstream, model] = LRU(_MOST_TENANTS)
        return tenants


def agreed(factors: Sequence[float], prior: float) -> float:
    """The factor for a tenant of whom nothing is known, from those of others: their median. The prior has a vote where
    their number is even. Of a single one only a part is believed."""
    if len(factors) == 1:
        return min(max(factors[0], prior / ALONE), prior * ALONE)
    return median(factors if len(factors) % 2 else [*factors, prior])


@lru_cache(_MOST_PAIRS)
def prior(model: str) -> float:
    """The factor for a model without any count, by its name. Of a distilled model (`deepseek-r1-distill-llama`) the
    family named last is the tokenizer's."""
    name = model.lower()
    named = [(m.start(), factor) for pattern, factor in FAMILIES for m in pattern.finditer(name)]
    return max(named)[1] if named else UNKNOWN
