"""Where the parts of messages are, of those that are planned in parts.

What is known of a long conversation is kept for each of its prefixes, and it is looked up there: to bring it into one
map at every request would cost as much as reading what is new.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

Spans = Sequence[slice]  # places of messages in a body, in bytes, one after the other
Cuts = Mapping[int, tuple[slice, ...]]
"""By message the places of its parts, in bytes of the message; of those that are planned in parts. No place stands for
a message that is planned whole and may have to move."""


def added(cuts: Cuts) -> int:
    """How many more parts than messages there are."""
    return sum([len(parts) - 1 for parts in cuts.values() if parts])


class Chunk(NamedTuple):
    """Messages one after the other: the number of the first, its place among all messages and parts, where the
    messages are in the body, and the cuts of some of them."""

    message: int
    first: int
    spans: Spans
    cuts: Cuts


class Row(NamedTuple):
    """A message or part: the message that it is or belongs to, whether that begins with it and how many parts it has,
    and the place in the body."""

    message: int
    is_first: bool
    parts: int
    place: slice


class Cutting:
    """All messages and parts, chunk by chunk. A chunk is looked at when something in it is asked for."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chunks = chunks
        self._rows: dict[int, list[Row]] = {}

    def row(self, at: int) -> Row:
        """The message or part at a place among all of them."""
        n = bisect_right(self.chunks, at, key=_first) - 1
        rows = self._rows.get(n)
        if rows is None:
            rows = self._rows[n] = _rows_of(self.chunks[n])
        return rows[at - self.chunks[n].first]

    def of_message(self, message: int) -> tuple[slice, ...] | None:
        """The parts of a message, as `Cuts` has them; None where it has none."""
        return self.chunks[bisect_right(self.chunks, message, key=_message) - 1].cuts.get(message)


def _first(chunk: Chunk) -> int:
    return chunk.first


def _message(chunk: Chunk) -> int:
    return chunk.message


def _rows_of(chunk: Chunk) -> list[Row]:
    found = list[Row]()
    for message, span in enumerate(chunk.spans, chunk.message):
        parts, start = chunk.cuts.get(message), span.start
        if not parts:
            found.append(Row(message, True, 1, span))
            continue
        for n, part in enumerate(parts):
            found.append(Row(message, not n, len(parts), slice(start + part.start, start + part.stop)))
    return found
