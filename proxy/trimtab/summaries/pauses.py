"""What failed is left alone for a while, longer with every failure; all replicas see it.

The record holds no text, only how often and until when. It outlives its pause, so that a failure after it
counts on. Unreadable records are as good as none; no record can ask for more than the longest pause.
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
    until: float  # seconds since 1970, as clocks of several machines agree on


class Pauses:
    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    async def holds(self, key: str) -> bool:
        """Whether making the value of `key` is to be left alone now."""
        return 0 < (await self._record(key)).until - self._clock() <= LONGEST_S

    async def failed(self, key: str) -> None:
        """Leave it alone: 30 s after the first failure, twice as long after each further one, an hour at
        most.
        """
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
