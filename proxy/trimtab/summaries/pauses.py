"""A summary that failed is left alone for a while, longer with each failure; all replicas see it.

The record holds no text, only how often and until when. It outlives its pause, so that the next failure counts on. An
unreadable record counts as none, and no record can ask for more than the longest pause.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from trimtab.store.keys import pause_key
from trimtab.store.protocol import Store

FIRST_S = 30.0
LONGEST_S = 3_600.0


class _Record(msgspec.Struct, array_like=True):
    failures: int
    until: float  # seconds since 1970, because clocks of several machines agree on it


class Pauses:
    """The pauses of all summaries, by their keys. `clock` gives seconds since 1970."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    async def is_paused(self, key: str) -> bool:
        """True when the summary with this key must not be tried now."""
        return 0 < (await self._record(key)).until - self._clock() <= LONGEST_S

    async def record_failure(self, key: str) -> None:
        """Pause it: 30 s after the first failure, twice as long after each further one, an hour at most."""
        failures = min((await self._record(key)).failures, 30) + 1
        pause = min(FIRST_S * 2.0 ** (failures - 1), LONGEST_S)
        record = msgspec.json.encode(_Record(failures, self._clock() + pause))
        await self._store.set(pause_key(key), record, 2 * pause)

    async def _record(self, key: str) -> _Record:
        value = await self._store.get(pause_key(key))
        try:
            return msgspec.json.decode(value or b"[0,0]", type=_Record)
        except msgspec.DecodeError:
            return _Record(0, 0)
