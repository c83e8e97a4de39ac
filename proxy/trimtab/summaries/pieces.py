"""How much one summary call reads: whole segments while they fit; a segment that does not fit alone, in pieces.

Every entry is in exactly one piece, in order. Sizes are estimated tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from trimtab.context.estimate.tokens import text_tokens
from trimtab.summaries.render import Entry

HEAD_TOKENS = 12  # the mark, the brackets and the head of an entry: measured 8 to 11 with o200k
MARGIN = 0.85  # of the room, when a body is cut by its mean tokens per character


class Step(msgspec.Struct, frozen=True):
    """What to summarize next: `pieces`, read one after the other, reach the end of a segment."""

    segments: int  # summarized when the last piece is
    pieces: tuple[tuple[Entry, ...], ...]


def next_step(segment: Callable[[int], Sequence[Entry]], done: int, wanted: int, room: int) -> Step:
    """From `done` segments towards `wanted`, at most `room` tokens in a call. `segment(i)` gives the entries of segment
    i; only the segments needed are asked for.
    """
    taken = list(segment(done))
    size = entry_tokens(taken)
    if size > room:
        return Step(done + 1, tuple(_split(taken, room)))
    reached = done + 1
    while reached < wanted:
        more = segment(reached)
        size += entry_tokens(more)
        if size > room:
            break
        taken += more
        reached += 1
    return Step(reached, (tuple(taken),))


def entry_tokens(parts: Sequence[Entry]) -> int:
    """Estimated tokens of the entries as they are written."""
    return sum(text_tokens(entry.body) + HEAD_TOKENS for entry in parts)


def _split(parts: Sequence[Entry], room: int) -> Iterator[tuple[Entry, ...]]:
    piece: list[Entry] = []
    size = 0
    for entry in (part for whole in parts for part in _cut(whole, room)):
        cost = entry_tokens((entry,))
        if piece and size + cost > room:
            yield tuple(piece)
            piece, size = [], 0
        piece.append(entry)
        size += cost
    yield tuple(piece)


def _cut(entry: Entry, room: int) -> Iterator[Entry]:
    """An entry in parts that each fit `room`, cut by characters."""
    size = entry_tokens((entry,))
    if size <= room:
        yield entry
        return
    step = max(1, int(len(entry.body) * room * MARGIN / size))
    for start in range(0, len(entry.body), step):
        head = entry.head if start == 0 else f"{entry.head}, continued"
        yield Entry(head, entry.body[start : start + step])
