"""Known prefixes of request bodies: what was read of one body holds for the next one that begins with the same bytes.

Every request of an agent repeats the one before and adds a little. A body has a digest at every block edge, over all
bytes up to there, as inference servers name the blocks of their prefix caches. The longest known prefix says which
messages it holds and where they lie, and only what follows is read. A prefix holds views and places, never text, and
belongs to one tenant: a forged collision could only reach whoever forged it. What is sent is cut from the request at
hand.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from xxhash import xxh3_128

from trimtab.context.read.memo import Generations
from trimtab.context.read.views import DIGEST_SEED, View
from trimtab.wire.messages import Cuts, Messages, Spans, added

BLOCK = 32 << 10
"""Bytes between two digests of a body."""

_MOST = 50_000  # messages and prefixes in each generation


class Prefix(msgspec.Struct, frozen=True):
    """The first messages of a body. `views`, `spans` and `cuts` are those of the messages that are not in `before`, the
    prefix one block shorter or more; `tokens`, `marked`, `count` (of views) and `chain` are of all."""

    views: Sequence[View]
    spans: Spans
    tokens: int
    marked: tuple[int, ...]  # views of what has a field `pinned`
    count: int
    chain: int  # see `chained`
    before: Prefix | None = None
    cuts: Cuts = {}

    def all(self) -> tuple[list[View], Spans, Cuts]:
        """Views, places and parts of all its messages."""
        chain: list[Prefix] = [self]
        while (before := chain[-1].before) is not None:
            chain.append(before)
        views: list[View] = []
        spans: Spans = []
        cuts: dict[int, tuple[slice, ...]] = {}
        for prefix in reversed(chain):
            views += prefix.views
            spans += prefix.spans
            cuts |= prefix.cuts
        return views, spans, cuts


class Match(msgspec.Struct, frozen=True):
    """The longest known prefix of one body, with the views and places of its messages."""

    digests: list[bytes]  # of the body, at each block edge
    blocks: int = 0  # how many of these blocks the prefix covers
    prefix: Prefix | None = None
    views: Sequence[View] = ()
    spans: Spans = []
    cuts: Cuts = {}


class Prefixes:
    """Known prefixes, by digest; bounded. One for the process."""

    def __init__(self, capacity: int = _MOST, block: int = BLOCK) -> None:
        """`capacity`: messages and prefixes in each of two generations; `block`: bytes."""
        self._block = block
        self._known: Generations[Prefix] = Generations(capacity)

    def match(self, body: bytes, tenant: bytes = b"") -> Match:
        """The longest known prefix of a tenant's body. Costs one pass over its bytes, at the speed of memory."""
        digests = _digests(body, self._block, tenant) if len(body) >= self._block else []
        for blocks in range(len(digests), 0, -1):
            key = digests[blocks - 1]
            if prefix := self._known.get(key):
                views, spans, cuts = prefix.all()
                if not self._known.is_young(key):
                    # It keeps every prefix before it alive, though their own keys may be gone.
                    self._known.put(key, prefix, 1 + len(spans))
                return Match(digests, blocks, prefix, views, spans, cuts)
        return Match(digests)

    def remember(self, match: Match, messages: Messages, views: Sequence[View]) -> None:
        """Keep what was read of a body beyond its match: all `messages` of the body, and the views of them or of their
        parts."""
        if len(match.digests) == match.blocks or not (spans := messages.spans):
            return
        prefix, taken, seen = match.prefix, len(match.spans), len(match.views)
        for at in range(match.blocks, min(len(match.digests), spans[-1].stop // self._block)):
            stop = taken
            while stop < len(spans) and spans[stop].stop <= (at + 1) * self._block:
                stop += 1
            if stop > taken:
                cuts = {i: messages.cuts[i] for i in range(taken, stop) if i in messages.cuts}
                until = seen + stop - taken + added(cuts)
                prefix = _extended(prefix, seen, views[seen:until], spans[taken:stop], cuts)
                seen = until
            if prefix is not None:
                self._known.put(match.digests[at], prefix, 1 + stop - taken)
            taken = stop


def _extended(before: Prefix | None, seen: int, views: Sequence[View], spans: Spans, cuts: Cuts) -> Prefix:
    """The prefix that has more messages than `before`, which has `seen` views."""
    tokens = sum([view.tokens for view in views])
    marked = tuple([i for i, view in enumerate(views, seen) if view.has_mark])
    chain = chained(views, 0 if before is None else before.chain)[-1]
    if before is not None:
        tokens, marked = before.tokens + tokens, before.marked + marked
    return Prefix(views, spans, tokens, marked, seen + len(views), chain, before, cuts)


def chained(views: Sequence[View], before: int = 0) -> list[int]:
    """The hash that names the beginning of a conversation, of 0, of 1, and so on of these messages; `before` names what
    is before them."""
    chain = [before]
    for view in views:
        before = hash((before, view.digest))
        chain.append(before)
    return chain


def _digests(body: bytes, block: int, tenant: bytes) -> list[bytes]:
    """The digests of a tenant's body up to each block edge."""
    so_far, view = xxh3_128(tenant, seed=DIGEST_SEED), memoryview(body)
    digests = []
    for edge in range(block, len(body) + 1, block):
        so_far.update(view[edge - block : edge])
        digests.append(so_far.digest())
    return digests
