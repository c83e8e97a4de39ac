"""How conversations begin: what was read of a body holds for the next one that begins with the same bytes.

Every request of an agent repeats the one before and adds a little. A body is named at every block of bytes by a digest
of all bytes up to there, as inference servers name the blocks of their prefix caches. The longest beginning that is
known says where its messages lie and what they are, and only what follows is read. What is remembered holds views and
places, and never text, and holds for one owner's bodies alone: whoever could have his beginning taken for another's
would reach nobody but himself. What is sent is cut from the request at hand.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from xxhash import xxh3_128

from trimtab.context.read.digest import SEED
from trimtab.context.read.views import View
from trimtab.wire.messages import Messages, Spans

BLOCK = 32 << 10  # bytes
_MOST = 50_000  # messages remembered in each of two generations (see `views.Memo`)


class Opening(msgspec.Struct, frozen=True):
    """The first messages of a body: views and places of those that are not `before`'s, the estimated `tokens` of all,
    and which of all are `marked`."""

    views: Sequence[View]
    spans: Spans
    tokens: int
    marked: tuple[int, ...]
    before: Opening | None = None

    def all(self) -> tuple[list[View], Spans]:
        """Views and places of all its messages."""
        chain: list[Opening] = [self]
        while (before := chain[-1].before) is not None:
            chain.append(before)
        views: list[View] = []
        spans: Spans = []
        for opening in reversed(chain):
            views += opening.views
            spans += opening.spans
        return views, spans


class Found(msgspec.Struct, frozen=True):
    """The `names` of all beginnings of a body; `opening`: what is known of the longest known one, the `known`th, and
    the views and places of its messages."""

    names: list[bytes]
    known: int = 0
    opening: Opening | None = None
    views: Sequence[View] = ()
    spans: Spans = []


class Openings:
    """What is known of beginnings, by name; bounded. `block` is in bytes."""

    def __init__(self, capacity: int = _MOST, block: int = BLOCK) -> None:
        self._capacity, self._block, self._held = capacity, block, 0
        self._young: dict[bytes, Opening] = {}
        self._old: dict[bytes, Opening] = {}

    def find(self, body: bytes, owner: bytes = b"") -> Found:
        """The longest known beginning of a body, among those of the same owner. Costs one pass over its bytes, at the
        speed of memory."""
        names = _names(body, self._block, owner) if len(body) >= self._block else []
        for known in range(len(names), 0, -1):
            name = names[known - 1]
            if opening := self._young.get(name) or self._old.get(name):
                views, spans = opening.all()
                if name not in self._young:
                    self._put(name, opening, len(spans))  # it keeps all that came before it, whose names may go
                return Found(names, known, opening, views, spans)
        return Found(names)

    def keep(self, found: Found, messages: Messages, views: Sequence[View]) -> None:
        """Remember what was read of a body beyond what was found: its `messages`, and their views."""
        if len(found.names) == found.known or not (spans := messages.spans):
            return
        opening, taken = found.opening, len(found.spans)
        for at in range(found.known, min(len(found.names), spans[-1].stop // self._block)):
            stop = taken
            while stop < len(spans) and spans[stop].stop <= (at + 1) * self._block:
                stop += 1
            if stop > taken:
                opening = _longer(opening, taken, views[taken:stop], spans[taken:stop])
            if opening is not None:
                self._put(found.names[at], opening, stop - taken)
            taken = stop

    def _put(self, name: bytes, opening: Opening, messages: int) -> None:
        self._held += 1 + messages
        if self._held > self._capacity:
            self._old, self._young, self._held = self._young, {}, 1 + messages
        self._young[name] = opening


def _longer(before: Opening | None, count: int, views: Sequence[View], spans: Spans) -> Opening:
    """An opening with more messages than `before`, which has `count`."""
    tokens = sum([view.tokens for view in views])
    marked = tuple([i for i, view in enumerate(views, count) if view.marked])
    if before is not None:
        tokens, marked = before.tokens + tokens, before.marked + marked
    return Opening(views, spans, tokens, marked, before)


def _names(body: bytes, block: int, owner: bytes) -> list[bytes]:
    """A name for each beginning of an owner's body, block by block."""
    so_far, view = xxh3_128(owner, seed=SEED), memoryview(body)
    names = []
    for edge in range(block, len(body) + 1, block):
        so_far.update(view[edge - block : edge])
        names.append(so_far.digest())
    return names
