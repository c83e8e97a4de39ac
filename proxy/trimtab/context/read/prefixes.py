"""Known prefixes of request bodies: what was read of one body holds for the next one that begins with the same bytes.

Every request of an agent repeats the one before and adds a little. A body has a digest at every edge, over all
bytes up to there, as inference servers name what their prefix caches hold. The longest known prefix says which
messages it holds and where they lie, and only what follows is read. A prefix holds views and places, never text, and
belongs to one tenant: a forged collision could only reach whoever forged it. What is sent is cut from the request at
hand.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from operator import attrgetter
from weakref import WeakValueDictionary

import msgspec
from cachetools import LRUCache
from xxhash import xxh3_128

from trimtab.context.read.prefix import Prefix, extended
from trimtab.context.read.shelf import Shelf, packed, unpacked
from trimtab.context.read.views import DIGEST_SEED, View
from trimtab.wire.messages import Cuts, Messages, Spans, added

STRIDE = 32 << 10
"""Bytes between two edges of a body, where it has digests."""

_MOST = 100_000  # messages of all conversations that are kept as they are; the others are packed (`shelf`)


class Match(msgspec.Struct, frozen=True):
    """The longest known prefix of one body, with the views and places of its messages."""

    digests: list[bytes]  # of the body, at each edge
    covered: int = 0  # how many of these edges the prefix covers
    prefix: Prefix | None = None
    views: Sequence[View] = ()
    spans: Spans = []
    cuts: Cuts = {}


_NO_MATCH = Match([])


class Prefixes:
    """Known prefixes, by digest; bounded. One for the process and format.

    The longest prefix of each conversation keeps the shorter ones alive. The conversations used last are kept as they
    are; one that leaves them is packed and put on a shelf, where it takes a quarter of the memory.
    """

    def __init__(
        self, capacity: int = _MOST, stride: int = STRIDE, shelf: Shelf | None = None, name: bytes = b"chat"
    ) -> None:
        """`capacity`: messages that are kept as they are; `stride`: bytes; `name`: of the format, because several may
        share a shelf."""
        self._stride, self._name = stride, name
        self._shelf = Shelf(0) if shelf is None else shelf
        self._known: WeakValueDictionary[bytes, Prefix] = WeakValueDictionary()
        self._longest = _Longest(capacity, self._shelf)
        self._lock = threading.Lock()  # long requests are read beside the event loop

    def match(self, body: bytes, tenant: bytes = b"") -> Match:
        """The longest known prefix of a tenant's body. Costs one pass over its bytes, at the speed of memory."""
        if len(body) < self._stride:
            return _NO_MATCH
        digests = _digests(body, self._stride, self._name + b"\0" + tenant)
        with self._lock:
            for covered in range(len(digests), 0, -1):
                if prefix := self._find(digests[covered - 1]):
                    return Match(digests, covered, prefix, *prefix.all())
        return Match(digests)

    def _find(self, digest: bytes) -> Prefix | None:
        prefix = self._known.get(digest)
        if prefix is not None:
            self._longest.get(prefix.digest)  # it is in use
        elif (record := self._shelf.take(digest)) is not None:
            chain = unpacked(record)
            self._known.update((part.digest, part) for part in chain)
            self._longest.put(chain[-1])
            prefix = self._known.get(digest)
        return prefix

    def remember(self, match: Match, messages: Messages, views: Sequence[View]) -> None:
        """Keep what was read of a body beyond its match: all `messages` of the body, and the views of them or of their
        parts."""
        if len(match.digests) == match.covered or not (spans := messages.spans):
            return
        prefix, taken, seen = match.prefix, len(match.spans), len(match.views)
        with self._lock:
            for at in range(match.covered, min(len(match.digests), spans[-1].stop // self._stride)):
                stop = taken
                while stop < len(spans) and spans[stop].stop <= (at + 1) * self._stride:
                    stop += 1
                if stop > taken:
                    cuts = {i: messages.cuts[i] for i in range(taken, stop) if i in messages.cuts}
                    until = seen + stop - taken + added(cuts)
                    new = views[seen:until], spans[taken:stop], cuts
                    prefix = extended(prefix, seen, *new, match.digests[at])
                    seen = until
                if prefix is not None:
                    self._known[match.digests[at]] = prefix
                taken = stop
            if prefix is not None and prefix is not match.prefix:
                if match.prefix is not None:
                    self._longest.pop(match.prefix.digest, None)
                self._longest.put(prefix)


class _Longest(LRUCache[bytes, Prefix]):
    """The longest prefixes of the conversations used last, by digest, bounded by their messages."""

    def __init__(self, capacity: int, shelf: Shelf) -> None:
        super().__init__(capacity, getsizeof=attrgetter("count"))
        self._shelf = shelf

    def put(self, prefix: Prefix) -> None:
        """Keep a prefix, and with it those it goes on from. One that is larger than all the room is not kept."""
        if prefix.count <= self.maxsize:
            self[prefix.digest] = prefix

    def popitem(self) -> tuple[bytes, Prefix]:
        """Take out the one that was not used for the longest time, and put it on the shelf."""
        digest, prefix = super().popitem()
        chain = prefix.parts()
        self._shelf.put(packed(chain), [part.digest for part in chain], prefix.count)
        return digest, prefix


def _digests(body: bytes, stride: int, owner: bytes) -> list[bytes]:
    """The digests of a body up to each edge. `owner`: its format and tenant."""
    so_far, view = xxh3_128(owner, seed=DIGEST_SEED), memoryview(body)
    digests = []
    for edge in range(stride, len(body) + 1, stride):
        so_far.update(view[edge - stride : edge])
        digests.append(so_far.digest())
    return digests
