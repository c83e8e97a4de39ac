"""What stands for a message where its text must not: a digest of its bytes, by which what was found out about it is
found again. 128 bits, so that two messages never share one by chance, and seeded like Python's own hashes, with a
number drawn for each process, so that nobody can make two that do. Nothing that is sent may depend on a digest.

XXH3 reads a message where it lies at 20 GB/s and more; Python's own hash needs a copy first and reads 3 GB/s, which
at a megabyte is a millisecond of every request (tests/bench, "views, warm").
"""

from __future__ import annotations

from collections.abc import Hashable

from msgspec import Raw

_SEED = hash(__name__) & 0xFFFF_FFFF_FFFF_FFFF

try:
    from xxhash import xxh3_128_digest
except ImportError:

    def digest(raw: bytes | Raw) -> Hashable:
        """A key for the bytes of a message."""
        data = bytes(raw)
        return hash(data), len(data)

else:

    def digest(raw: bytes | Raw) -> Hashable:
        """A key for the bytes of a message."""
        return xxh3_128_digest(raw, _SEED)
