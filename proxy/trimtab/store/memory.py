"""The store in this process: the least recently used value goes first, bounded in bytes and in time.

It is the only store when no Redis is configured, and what a `RedisStore` falls back on while its server is away.
Locks are held apart from values: a lock ends by its time alone and never to make room.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cachetools import TLRUCache

ENTRY_OVERHEAD = 500  # bytes of one entry beside key and value, measured: objects, dict slots, the heap of end times


class _Entry(NamedTuple):
    value: bytes
    ttl_s: float
    size: int  # bytes, with the key and the overhead


class MemoryStore:
    """Holds `max_bytes` at most, of values up to `max_value_bytes`. `clock` gives seconds and never goes back."""

    def __init__(
        self,
        max_bytes: int = 64 << 20,
        max_value_bytes: int = 256 << 10,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_value = max_value_bytes
        self._entries: TLRUCache[str, _Entry] = TLRUCache(
            max_bytes, ttu=lambda _, entry, now: now + entry.ttl_s, timer=clock, getsizeof=lambda entry: entry.size
        )
        self._locks: TLRUCache[str, tuple[str, float]] = TLRUCache(
            math.inf, ttu=lambda _, lock, now: now + lock[1], timer=clock
        )

    async def get(self, key: str, keep_s: float | None = None) -> bytes | None:
        """The value, from now on the most recently used; None when it is not there or its time is over."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if keep_s is not None:
            self._entries[key] = entry._replace(ttl_s=keep_s)
        return entry.value

    async def get_many(self, keys: Sequence[str], keep_s: float | None = None) -> list[bytes | None]:
        """The values, in the order of `keys`."""
        return [await self.get(key, keep_s) for key in keys]

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        """Keep `value`; where room is short, values that ran out go first, then the least recently used."""
        size = len(key) + len(value) + ENTRY_OVERHEAD
        self._entries.pop(key, None)
        if len(value) <= self._max_value and size <= self._entries.maxsize:
            self._entries[key] = _Entry(value, ttl_s, size)

    async def lock(self, key: str, token: str, ttl_s: float) -> bool:
        """Take the lock or renew it: True. False while another token holds it."""
        if self._locks.get(key, (token, ttl_s))[0] != token:
            return False
        self._locks[key] = (token, ttl_s)
        return True

    async def unlock(self, key: str, token: str) -> None:
        """Free the lock, if `token` still holds it."""
        if self._locks.get(key, ("", 0.0))[0] == token:
            del self._locks[key]

    async def ping(self) -> bool:
        """Always True: no server is needed."""
        return True

    async def aclose(self) -> None:
        """Forget all values and locks."""
        self._entries.clear()
        self._locks.clear()
