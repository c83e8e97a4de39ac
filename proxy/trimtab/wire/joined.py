"""Lists one after the other, seen as one sequence.

What is known of a long conversation is kept in a list for each of its prefixes. To copy them into one list at every
request, and to let go of the one that the request before had, would cost as much as all the rest of planning it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import TypeVar, overload

Item = TypeVar("Item")


class Joined(Sequence[Item]):
    """The items of several sequences, none of which is copied. They are not to change."""

    def __init__(self, parts: Iterable[Sequence[Item]] = ()) -> None:
        self._parts = [part for part in parts if part]
        self._ends = [*accumulate(map(len, self._parts))]

    def followed_by(self, more: Sequence[Item]) -> Joined[Item]:
        """These, and more of them behind."""
        return Joined([*self._parts, more])

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, at: int) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> list[Item]: ...
    def __getitem__(self, at: int | slice) -> Item | list[Item]:
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            return self._between(start, stop) if step == 1 else [*self][at]
        if at < 0:
            at += len(self)
        n = bisect_right(self._ends, at)
        if at < 0 or n == len(self._ends):
            raise IndexError(at)
        return self._parts[n][at - self._ends[n]]  # counted from its end

    def _between(self, start: int, stop: int) -> list[Item]:
        found: list[Item] = []
        n = bisect_right(self._ends, start)
        while start < stop:
            part, end = self._parts[n], self._ends[n]
            first = len(part) - (end - start)
            found += part[first : first + stop - start]
            start, n = end, n + 1
        return found

    def __iter__(self) -> Iterator[Item]:
        return chain.from_iterable(self._parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]
