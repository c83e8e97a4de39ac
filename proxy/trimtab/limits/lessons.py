"""The learned limits of every (upstream, model), each for a time, beside the largest prompt it has taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from trimtab.limits.events import Event, Notify
from trimtab.limits.learned import Learned, both, disproved, learn
from trimtab.limits.limit import Limit

T = TypeVar("T")

_MOST = 4_096  # pairs held: names come from clients


class _Kept(msgspec.Struct, frozen=True):
    learned: Learned
    until: float  # clock seconds


class Lessons:
    """What refusals taught, by (upstream, model)."""

    def __init__(self, *, ttl_s: float, clock: Callable[[], float], notify: Notify) -> None:
        self.ttl_s = ttl_s
        self._clock, self._notify = clock, notify
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._taken: dict[tuple[str, str], int] = {}

    def of(self, upstream: str, model: str) -> Learned | None:
        """What is learned and still holds. Quick: it runs on every request."""
        kept = self._kept.get((upstream, model)) if self._kept else None
        return kept.learned if kept and self._clock() < kept.until else None

    def learn(self, upstream: str, model: str, limit: Limit, reported: int, input_only: bool) -> bool:
        """Learn that `reported` tokens are the most; `limit` is what is believed now. Gives whether that is
        lower. A contradiction with what an operator wrote is told apart: someone should look."""
        taken = self._taken.get((upstream, model), 0)
        lesson = learn(limit, taken, reported, input_only=input_only)
        if lesson is None:
            self._notify(Event("learned_ignored", upstream, model, f"{reported} of {limit.context_size}"))
            return False
        self._keep(upstream, model, lesson)
        written = limit.source in ("configured", "environment")
        detail = f"{limit.source} {limit.context_size}, the upstream takes {reported}"
        self._notify(Event("learned_contradicts" if written else "learned", upstream, model, detail))
        return True

    def taken(self, upstream: str, model: str, tokens: int) -> bool:
        """The upstream has taken a prompt of `tokens`. Gives whether a learned limit was disproved by it."""
        pair = (upstream, model)
        if tokens > self._taken.get(pair, 0):
            _bounded(self._taken, pair)
            self._taken[pair] = tokens
        learned = self.of(upstream, model)
        if learned is None or not disproved(learned, tokens):
            return False
        del self._kept[pair]
        self._notify(Event("learned_disproved", upstream, model, f"took {tokens}"))
        return True

    def dump(self, upstream: str, model: str) -> bytes:
        """What other replicas need to know of a pair; an empty lesson where there is none."""
        return msgspec.json.encode(self.of(upstream, model) or Learned())

    def merge(self, upstream: str, model: str, shared: bytes) -> None:
        """Take over what a replica learned, unless this one has seen it disproved."""
        try:
            theirs = msgspec.json.decode(shared, type=Learned)
        except msgspec.DecodeError:
            return
        if theirs != Learned() and not disproved(theirs, self._taken.get((upstream, model), 0)):
            self._keep(upstream, model, theirs)

    def _keep(self, upstream: str, model: str, lesson: Learned) -> None:
        pair = (upstream, model)
        before = self.of(upstream, model)
        merged = both(before, lesson) if before else lesson
        if merged == before:
            return  # heard again from the store: its time is not prolonged
        _bounded(self._kept, pair)
        self._kept[pair] = _Kept(merged, self._clock() + self.ttl_s)


def _bounded(held: dict[tuple[str, str], T], pair: tuple[str, str]) -> None:
    """Make room for `pair` by forgetting the one held longest."""
    if len(held) >= _MOST and pair not in held:
        del held[next(iter(held))]
