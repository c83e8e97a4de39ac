"""How much one summary call reads: whole segments while they fit; one that does not fit alone, in pieces.

Every entry is in exactly one piece, in order. Sizes are estimated tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from trimtab.context.estimate.tokens import text_tokens
from trimtab.summaries.render import Entry

HEAD_TOKENS = 12  # the mark, the brackets and the head of an entry: measured 8 to 11 with o200k
MARGIN = 0.85  # of the room, when a body is cut by its mean tokens a character


class Step(msgspec.Struct, frozen=True):
    """The next stretch to summarize: `pieces`, read one after the other, reach the end of segment `upto`."""

    upto: int  # segments done when the last piece is
    pieces: tuple[tuple[Entry, ...], ...]


def next_step(segment: Callable[[int], Sequence[Entry]], done: int, wanted: int, room: int) -> Step:
    """From `done` segments towards `wanted`, at most `room` tokens in a call. `segment(i)` are the entries
    of the segment with index i; only those needed are asked for.
    """
    taken = list(segment(done))
    size = tokens(taken)
    if size > room:
        return Step(done + 1, tuple(_split(taken, room)))
    upto = done + 1
    while upto < wanted:
        more = segment(upto)
        size += tokens(more)
        if size > room:
            break
        taken += more
        upto += 1
    return Step(upto, (tuple(taken),))


def tokens(parts: Sequence[Entry]) -> int:
    """Estimated tokens of the entries as they are written."""
    return sum(text_tokens(entry.body) + HEAD_TOKENS for entry in parts)


def _split(parts: Sequence[Entry], room: int) -> Iterator[tuple[Entry, ...]]:
    piece: list[Entry] = []
    size = 0
    for entry in (part for whole in parts for part in _cut(whole, room)):
        cost = tokens((entry,))
        if piece and size + cost > room:
            yield tuple(piece)
            piece, size = [], 0
        piece.append(entry)
        size += cost
    yield tuple(piece)


def _cut(entry: Entry, room: int) -> Iterator[Entry]:
    """An entry in parts that each fit `room`, cut by characters."""
    size = tokens((entry,))
    if size <= room:
        yield entry
        return
    step = max(1, int(len(entry.body) * room * MARGIN / size))
    for start in range(0, len(entry.body), step):
        head = entry.head if start == 0 else f"{entry.head}, continued"
        yield Entry(head, entry.body[start : start + step])
