"""The one protocol of all stores: bytes under a key, for a time, and a lock that ends by itself.

A store never raises and never keeps a caller waiting: whatever goes wrong, a read is a miss and a write is
forgotten. So callers hold no error handling, and a store may be swapped for another without being noticed.
`tests/store/test_protocol.py` is the contract, run against every implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Store(Protocol):
    """All times are seconds. Keys are short text; values are opaque bytes."""

    async def get(self, key: str, keep_s: float | None = None) -> bytes | None:
        """The value, or None. With `keep_s` the read makes it last that much longer (a sliding TTL)."""
        ...

    async def get_many(self, keys: Sequence[str], keep_s: float | None = None) -> list[bytes | None]:
        """The values in the order of `keys`, in one round trip."""
        ...

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        """Keep `value` for `ttl_s`. One larger than the store's bound is not kept."""
        ...

    async def lock(self, key: str, token: str, ttl_s: float) -> bool:
        """Take the lock, or renew it if `token` holds it already: True. False while another holds it."""
        ...

    async def unlock(self, key: str, token: str) -> None:
        """Give the lock back, if `token` still holds it."""
        ...

    async def ping(self) -> bool:
        """Whether values are shared with other replicas at this moment (an in-process store: always True)."""
        ...

    async def aclose(self) -> None:
        """Close connections. Later calls are misses."""
        ...
