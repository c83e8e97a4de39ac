"""How conversations begin: what was read of a body holds for the next one that begins with the same bytes.

Every request of an agent repeats the one before and adds a little. A body is named at every block of bytes by a digest
of all bytes up to there, as inference servers name the blocks of their prefix caches. The longest beginning that is
known says where its messages lie and what they are, and only what follows is read. What is remembered holds views and
places, and never text. A beginning taken for another would cost a false estimate and no false byte: what is sent is
read from the request itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw
from xxhash import xxh3_128

from proxy.context.digest import SEED
from proxy.context.views import View
from proxy.wire.messages import Place, ends

BLOCK = 32 << 10  # bytes
_MOST = 50_000  # messages remembered in each of two generations (see `views.Memo`)


class Opening(msgspec.Struct, frozen=True):
    """The first messages of a body: where they lie, their estimated `tokens`, which of them are `marked`; the views of
    those that are not `before`'s."""

    place: Place
    views: Sequence[View]
    tokens: int
    marked: tuple[int, ...]
    before: Opening | None = None

    def all_views(self) -> list[View]:
        chain: list[Sequence[View]] = []
        opening: Opening | None = self
        while opening is not None:
            chain.append(opening.views)
            opening = opening.before
        return [view for views in reversed(chain) for view in views]


class Found(msgspec.Struct, frozen=True):
    """The `names` of all beginnings of a body; `opening`: what is known of the longest known one, the `known`th."""

    names: list[bytes]
    known: int = 0
    opening: Opening | None = None


class Openings:
    """What is known of beginnings, by name; bounded. `block` is in bytes."""

    def __init__(self, capacity: int = _MOST, block: int = BLOCK) -> None:
        self._capacity, self._block, self._held = capacity, block, 0
        self._young: dict[bytes, Opening] = {}
        self._old: dict[bytes, Opening] = {}

    def find(self, body: bytes) -> Found:
        """The longest known beginning of a body. Costs one pass over its bytes, at the speed of memory."""
        names = _names(body, self._block) if len(body) >= self._block else []
        for known in range(len(names), 0, -1):
            if opening := self._get(names[known - 1]):
                return Found(names, known, opening)
        return Found(names)

    def keep(self, found: Found, body: bytes, fresh: Sequence[bytes | Raw], views: Sequence[View]) -> None:
        """Remember what was read of a body beyond what was found: its `fresh` messages and their views."""
        opening = found.opening
        if len(found.names) == found.known or not fresh:
            return
        if (where := ends(body, fresh, opening.place if opening else None)) is None:
            return
        start, ended = where
        taken = 0
        for at in range(found.known, min(len(found.names), ended[-1] // self._block)):
            stop = taken
            while stop < len(ended) and ended[stop] <= (at + 1) * self._block:
                stop += 1
            if stop > taken:
                opening = _longer(opening, views[taken:stop], start, ended[stop - 1])
                taken = stop
            if opening is not None:
                self._put(found.names[at], opening)

    def _get(self, name: bytes) -> Opening | None:
        found = self._young.get(name)
        if found is None and (found := self._old.get(name)) is not None:
            self._put(name, found)
        return found

    def _put(self, name: bytes, opening: Opening) -> None:
        self._held += 1 + len(opening.views)
        if self._held > self._capacity:
            self._old, self._young, self._held = self._young, {}, 0
        self._young[name] = opening


def _longer(before: Opening | None, views: Sequence[View], start: int, end: int) -> Opening:
    """An opening with more messages, which end at `end`."""
    count = before.place.count if before else 0
    tokens = sum([view.tokens for view in views])
    marked = tuple([i for i, view in enumerate(views, count) if view.marked])
    if before is not None:
        tokens, marked = before.tokens + tokens, before.marked + marked
    return Opening(Place(count + len(views), start, end), views, tokens, marked, before)


def _names(body: bytes, block: int) -> list[bytes]:
    """A name for each beginning of a body, block by block."""
    so_far, view = xxh3_128(seed=SEED), memoryview(body)
    names = []
    for edge in range(block, len(body) + 1, block):
        so_far.update(view[edge - block : edge])
        names.append(so_far.digest())
    return names
