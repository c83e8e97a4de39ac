"""The one protocol of all stores: bytes under a key, for a time, and a lock that ends by itself.

A store never raises and never keeps a caller waiting: when something goes wrong, a read is a miss and a write is lost.
So callers need no error handling, and any store can take the place of another. `tests/store/test_protocol.py` is the
contract, run against every implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Store(Protocol):
    """All times are seconds. Keys are short text (see `keys`); values are opaque bytes."""

    async def get(self, key: str, keep_s: float | None = None) -> bytes | None:
        """The value, or None. With `keep_s` the value lasts that long from this read on (a sliding TTL)."""
        ...

    async def get_many(self, keys: Sequence[str], keep_s: float | None = None) -> list[bytes | None]:
        """The values in the order of `keys`, in one round trip."""
        ...

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        """Keep `value` for `ttl_s`. A value larger than the store's bound is not kept."""
        ...

    async def lock(self, key: str, token: str, ttl_s: float) -> bool:
        """Take the lock, or renew it if `token` holds it already: True. False while another token holds it."""
        ...

    async def unlock(self, key: str, token: str) -> None:
        """Free the lock, if `token` still holds it."""
        ...

    async def ping(self) -> bool:
        """True when the store works at this moment: a server answers, or none is needed."""
        ...

    async def aclose(self) -> None:
        """Close connections. Later calls are misses."""
        ...
