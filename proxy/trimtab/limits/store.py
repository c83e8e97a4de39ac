"""Where replicas share what they learned: the least a store must do, and the one used when there is none.

Values are a few hundred bytes of numbers, never text of a conversation. A store that fails answers None and
does not raise; what is shared is a help, never a need.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Protocol


class Store(Protocol):
    """Bytes by key; `ttl_s` in seconds."""

    async def get(self, key: str) -> bytes | None: ...

    async def set(self, key: str, value: bytes, ttl_s: float) -> None: ...


class MemoryStore:
    """A store inside the process: what a single replica needs, and what tests share between two."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._held: dict[str, tuple[float, bytes]] = {}

    async def get(self, key: str) -> bytes | None:
        until, value = self._held.get(key, (0.0, b""))
        return value if self._clock() < until else None

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        self._held[key] = (self._clock() + ttl_s, value)


def key_for(kind: str, upstream: str, model: str) -> str:
    """The key of one (upstream, model) pair; a digest, because model names come from clients and may be long."""
    digest = hashlib.blake2b(f"{upstream}\0{model}".encode("utf-8", "replace"), digest_size=16)
    return f"limits:{kind}:1:{digest.hexdigest()}"
