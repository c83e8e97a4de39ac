"""Lessons and factors shared between replicas, through the store, in the background.

Written when a lesson or a factor changed; read when a pair is first asked for (that request waits a short time) and
again every SYNC_S seconds. The last writer wins: replicas differ by one step, for some seconds.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine

from lru import LRU

from trimtab.calibration.factors import Factors
from trimtab.limits.lessons import Lessons
from trimtab.store.keys import factor_key, lesson_key
from trimtab.store.protocol import Store

SYNC_S = 30.0
FACTOR_TTL_S = 7 * 86_400.0
_MOST_PAIRS = 4_096  # (upstream, model) pairs whose time of reading is kept: the names come from clients

_Pair = tuple[str, str]


class Sharing:
    """Reads and writes the store; without a store it does nothing."""

    def __init__(self, store: Store | None, factors: Factors, lessons: Lessons, *, clock: Callable[[], float]) -> None:
        self._store, self._factors, self._lessons, self._clock = store, factors, lessons, clock
        self._due: LRU[_Pair, float] = LRU(_MOST_PAIRS)  # clock seconds of the next reading
        self._tasks: set[asyncio.Task[None]] = set()

    def is_due(self, upstream: str, model: str) -> bool:
        """True when the store is to be read now."""
        return self._store is not None and self._clock() >= self._due.get((upstream, model), -math.inf)

    async def sync(self, upstream: str, model: str, wait_s: float) -> None:
        """Read the store if that is due. Waits at most `wait_s` seconds, and only the first time."""
        if self._store is None or not self.is_due(upstream, model):
            return
        pair = (upstream, model)
        first = pair not in self._due
        self._due[pair] = self._clock() + SYNC_S
        task = self._start(self._read(self._store, upstream, model))
        if first:
            await asyncio.wait({task}, timeout=wait_s)

    def share_factor(self, upstream: str, model: str) -> None:
        """Write a pair's factor, in the background."""
        value = self._factors.dump(upstream, model)
        if self._store is not None and value is not None:
            self._start(self._store.set(factor_key(upstream, model), value, FACTOR_TTL_S))

    def share_lesson(self, upstream: str, model: str) -> None:
        """Write a pair's lesson, in the background; an empty one replaces a lesson that was disproved."""
        if self._store is not None:
            value = self._lessons.dump(upstream, model)
            self._start(self._store.set(lesson_key(upstream, model), value, self._lessons.ttl_s))

    async def aclose(self) -> None:
        """Wait, at most a second, until everything is written."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)
        for task in self._tasks:
            task.cancel()

    async def _read(self, store: Store, upstream: str, model: str) -> None:
        factor, lesson = await store.get_many((factor_key(upstream, model), lesson_key(upstream, model)))
        if factor:
            self._factors.merge(upstream, model, factor)
        if lesson:
            self._lessons.merge(upstream, model, lesson)

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
