"""A provider's prefix cache: the longest beginning that a request shares with an earlier one is not read anew.

OpenAI's rule (its guide on prompt caching): from 1,024 tokens on, in steps of 128. What is remembered here is
the last few requests, which is what a cache of minutes amounts to in one conversation.
"""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.cli.demo.counting import Counted

LEAST, STEP = 1024, 128  # tokens
REMEMBERED = 8  # requests


class PrefixCache:
    """Ask with `hit`, in the order requests come; each is remembered."""

    def __init__(self) -> None:
        self._seen: list[list[Counted]] = []

    def hit(self, request: list[Counted]) -> int:
        """How many tokens of `request` come from the cache."""
        best = max((shared(request, earlier) for earlier in self._seen), default=0)
        self._seen = [*self._seen[1 - REMEMBERED :], request]
        return best // STEP * STEP if best >= LEAST else 0


def shared(a: Sequence[Counted], b: Sequence[Counted]) -> int:
    """Tokens of the common beginning; of the first differing message the share of its common beginning."""
    total = 0
    for one, other in zip(a, b, strict=False):
        if one is not other and one.raw != other.raw:
            return total + int(one.tokens * common(one.raw, other.raw) / max(1, len(one.raw)))
        total += one.tokens
    return total


def common(a: bytes, b: bytes) -> int:
    """Length of the common beginning of two byte strings, by halving."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
