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
from xxhash import xxh3_128

from trimtab.context.read.prefix import Prefix, extended
from trimtab.context.read.shelf import Newest, Shelf, packed, unpacked
from trimtab.context.read.views import DIGEST_SEED, View
from trimtab.wire.cuts import added
from trimtab.wire.joined import Joined
from trimtab.wire.messages import Messages

STRIDE = 32 << 10
"""Bytes between two edges of a body, where it has digests."""

MOST_MESSAGES = 100_000
"""Of all conversations that are kept as they are; the others are packed (`shelf`). Each takes some 550 bytes with its
view, and 1,000 where each is so large that it has a prefix of its own."""

_LEAST_MESSAGES = 20_000  # as many: a single conversation of 10,000 stays, and 10 MB
_BESIDE_SHELF = 1_024  # bytes of a shelf for each message that is kept as it is, which takes 800 with its replay


def messages_within(most_bytes: int) -> int:
    """How many messages are kept as they are beside a shelf of so many bytes."""
    return max(_LEAST_MESSAGES, min(MOST_MESSAGES, most_bytes // _BESIDE_SHELF))


class Match(msgspec.Struct, frozen=True):
    """The longest known prefix of one body, with the views and places of its messages."""

    digests: list[bytes]  # of the body, at each edge
    covered: int = 0  # how many of these edges the prefix covers
    prefix: Prefix | None = None
    views: Joined[View] = msgspec.field(default_factory=Joined)
    spans: Joined[slice] = msgspec.field(default_factory=Joined)


_NO_MATCH = Match([])


class Prefixes:
    """Known prefixes, by digest; bounded. One for the process and format.

    The longest prefix of each conversation keeps the shorter ones alive. The conversations used last are kept as they
    are; one that leaves them is packed and put on a shelf, where it takes a quarter of the memory.
    """

    def __init__(self, longest: Longest | None = None, stride: int = STRIDE, name: bytes = b"chat") -> None:
        """`longest`: what is kept as it is; `stride`: bytes; `name`: of the format, because several may share that."""
        self._stride, self._name = stride, name
        self._known: WeakValueDictionary[bytes, Prefix] = WeakValueDictionary()
        self._longest = Longest() if longest is None else longest

    def match(self, body: bytes, tenant: bytes = b"") -> Match:
        """The longest known prefix of a tenant's body. Costs one pass over its bytes, at the speed of memory."""
        if len(body) < self._stride:
            return _NO_MATCH
        digests = _digests(body, self._stride, self._name + b"\0" + tenant)
        match = Match(digests)
        with self._longest.lock:
            for covered in range(len(digests), 0, -1):
                if prefix := self._find(digests[covered - 1]):
                    match = Match(digests, covered, prefix, *prefix.all())
                    break
        self._longest.pack()
        return match

    def _find(self, digest: bytes) -> Prefix | None:
        prefix = self._known.get(digest)
        if prefix is not None:
            self._longest.get(prefix.digest)  # it is in use
        elif (record := self._longest.shelf.take(digest)) is not None:
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
        found: list[Prefix] = []
        for at in range(match.covered, min(len(match.digests), spans[-1].stop // self._stride)):
            stop = taken
            while stop < len(spans) and spans[stop].stop <= (at + 1) * self._stride:
                stop += 1
            if stop > taken:  # else what ends at the edge before is known by that one
                cuts = {i: messages.cuts[i] for i in range(taken, stop) if i in messages.cuts}
                until = seen + stop - taken + added(cuts)
                new = views[seen:until], spans[taken:stop], cuts
                prefix = extended(prefix, seen, *new, match.digests[at])
                found.append(prefix)
                seen, taken = until, stop
        if found:
            self._keep(found, match.prefix)

    def _keep(self, found: list[Prefix], before: Prefix | None) -> None:
        """Keep prefixes of a body, the longest last; `before`: the one they go on from."""
        with self._longest.lock:
            self._known.update((prefix.digest, prefix) for prefix in found)
            if before is not None:
                self._longest.pop(before.digest, None)
            self._longest.put(found[-1])
        self._longest.pack()


class Longest(Newest[bytes, Prefix]):
    """The longest prefixes of the conversations used last, by digest, bounded by their messages. One for the process:
    all formats share the room. `lock` is held while they are used: long requests are read beside the event loop."""

    def __init__(self, capacity: int = MOST_MESSAGES, shelf: Shelf | None = None) -> None:
        """`capacity`: messages; `shelf`: where those go that are not kept as they are."""
        super().__init__(capacity, attrgetter("count"))
        self.shelf = Shelf(0) if shelf is None else shelf
        self.lock = threading.Lock()

    def put(self, prefix: Prefix) -> None:
        """Keep a prefix, and with it those it goes on from. One that is larger than all the room is not kept."""
        if prefix.count <= self.maxsize:
            self[prefix.digest] = prefix

    def pack(self) -> None:
        """Put those that had to leave on the shelf. Without the lock."""
        for prefix in self.left():
            if self.shelf.takes(prefix.count):
                chain = prefix.parts()
                self.shelf.put(packed(chain), [part.digest for part in chain])


def _digests(body: bytes, stride: int, owner: bytes) -> list[bytes]:
    """The digests of a body up to each edge. `owner`: its format and tenant."""
    so_far, view = xxh3_128(owner, seed=DIGEST_SEED), memoryview(body)
    digests = []
    for edge in range(stride, len(body) + 1, stride):
        so_far.update(view[edge - stride : edge])
        digests.append(so_far.digest())
    return digests
