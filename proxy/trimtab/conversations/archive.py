"""The protocol of all archives: append-only logs and single records, both opaque bytes under a key, each for a time.

A log is the entries of one conversation. Its version is the number of its entries, and it only grows: an append names
the version it follows, and either all of its entries are there afterwards or none. An entry can be replaced, which
appends a marker, so that the version changes too. Unlike the store of summaries, an archive is not a cache: a call
that fails raises StoreUnavailable. `tests/conversations/test_archive.py` is the contract, run against every archive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec


class Log(msgspec.Struct, frozen=True):
    """A part of a log: `first` is its first entry, `entries` are those from a position on, `version` counts all."""

    version: int
    first: bytes
    entries: list[bytes]


class Archive(Protocol):
    """All times are seconds. Every method raises StoreUnavailable when the archive does not answer."""

    async def read(self, key: str, after: int, keep_s: float) -> Log | None:
        """The entries of a log beyond the first `after`, kept for `keep_s` from now on; None where there is no log."""
        ...

    async def append(self, key: str, entries: Sequence[bytes], expected: int, ttl_s: float) -> bool:
        """Append entries to a log of version `expected`; 0 makes the log. False where it has another version."""
        ...

    async def rewrite(self, key: str, at: int, entry: bytes, marker: bytes, expected: int, ttl_s: float) -> bool:
        """Replace the entry at a position and append `marker`, in a log of version `expected`. False where it has
        another version."""
        ...

    async def remove(self, keys: Sequence[str]) -> int:
        """Remove logs and records. Returns how many there were."""
        ...

    async def get_many(self, keys: Sequence[str], keep_s: float) -> list[bytes | None]:
        """The records in the order of `keys`, each kept for `keep_s` from now on; None where there is no record."""
        ...

    async def keep(self, keys: Sequence[str], keep_s: float) -> None:
        """Keep these records for `keep_s` from now on, without reading them."""
        ...

    async def set_many(self, records: Mapping[str, bytes], ttl_s: float) -> None:
        """Keep records."""
        ...

    async def lock(self, key: str, token: str, ttl_s: float) -> bool:
        """Take the lock, or renew it if `token` holds it already: True. False while another token holds it."""
        ...

    async def unlock(self, key: str, token: str) -> None:
        """Free the lock, if `token` still holds it."""
        ...

    async def ping(self) -> bool:
        """True when the archive answers now. Never raises."""
        ...

    async def aclose(self) -> None:
        """Close connections and files."""
        ...
