"""The store in this process: least recently used first out, bounded in bytes and in time.

Its clock is an argument, so that tests turn time by hand. It is the whole store when no Redis is
configured, and what a `RedisStore` falls back on while its server is away.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

ENTRY_OVERHEAD = 200  # bytes of one entry beside key and value: two strings' headers, a tuple, a dict slot
MAX_LOCKS = 1_000  # above this, locks that ran out are swept


class MemoryStore:
    def __init__(
        self,
        max_bytes: int = 64 << 20,
        max_value_bytes: int = 256 << 10,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_value = max_value_bytes
        self._clock = clock
        self._entries: OrderedDict[str, tuple[bytes, float]] = OrderedDict()
        self._locks: dict[str, tuple[str, float]] = {}
        self.bytes_held = 0

    async def get(self, key: str, keep_s: float | None = None) -> bytes | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        value, ends = entry
        now = self._clock()
        if ends <= now:
            self._remove(key)
            return None
        self._entries[key] = (value, ends if keep_s is None else now + keep_s)
        self._entries.move_to_end(key)
        return value

    async def get_many(self, keys: Sequence[str], keep_s: float | None = None) -> list[bytes | None]:
        return [await self.get(key, keep_s) for key in keys]

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        self._remove(key)
        if len(value) > self._max_value:
            return
        self._entries[key] = (value, self._clock() + ttl_s)
        self.bytes_held += _cost(key, value)
        while self.bytes_held > self._max_bytes:
            self._remove(next(iter(self._entries)))

    async def lock(self, key: str, token: str, ttl_s: float) -> bool:
        now = self._clock()
        holder, ends = self._locks.get(key, (token, now))
        if holder != token and ends > now:
            return False
        self._locks[key] = (token, now + ttl_s)
        if len(self._locks) > MAX_LOCKS:
            self._locks = {k: held for k, held in self._locks.items() if held[1] > now}
        return True

    async def unlock(self, key: str, token: str) -> None:
        if self._locks.get(key, ("", 0.0))[0] == token:
            del self._locks[key]

    async def ping(self) -> bool:
        return True

    async def aclose(self) -> None:
        self._entries.clear()
        self._locks.clear()
        self.bytes_held = 0

    def _remove(self, key: str) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.bytes_held -= _cost(key, entry[0])


def _cost(key: str, value: bytes) -> int:
    return len(key) + len(value) + ENTRY_OVERHEAD
