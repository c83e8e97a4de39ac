"""What is known of the beginning of one request body: views and places of its messages, never text.

A prefix goes on from a shorter one, so that a conversation keeps what was read of each message once.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trimtab.context.read.views import View
from trimtab.wire.joined import Joined
from trimtab.wire.messages import Cuts, Spans


class Prefix(msgspec.Struct, frozen=True, weakref=True, eq=False):
    """The first messages of a body. `views`, `spans`, `marked` and `cuts` are those of the messages that are not in
    `before`, the prefix that ends one edge before or more; `tokens`, `count` (of views) and `chain` are of all."""

    views: Sequence[View]
    spans: Spans
    tokens: int
    marked: tuple[int, ...]  # views of what has a field `pinned`, counted from the first message
    count: int
    chain: int  # see `chained`
    before: Prefix | None = None
    cuts: Cuts = {}
    digest: bytes = b""  # of the body, at the first edge behind these messages

    def parts(self) -> list[Prefix]:
        """The prefixes it goes on from, the shortest first, and itself."""
        chain: list[Prefix] = [self]
        while (before := chain[-1].before) is not None:
            chain.append(before)
        return chain[::-1]

    def all_marked(self) -> tuple[int, ...]:
        """What is `marked` of all its messages."""
        return tuple([i for prefix in self.parts() for i in prefix.marked])

    def all(self) -> tuple[Joined[View], Joined[slice], Cuts]:
        """Views, places and parts of all its messages."""
        parts = self.parts()
        cuts: dict[int, tuple[slice, ...]] = {}
        for prefix in parts:
            if prefix.cuts:
                cuts |= prefix.cuts
        return Joined([prefix.views for prefix in parts]), Joined([prefix.spans for prefix in parts]), cuts


def extended(
    before: Prefix | None, seen: int, views: Sequence[View], spans: Spans, cuts: Cuts, digest: bytes
) -> Prefix:
    """The prefix that has more messages than `before`, which has `seen` views."""
    tokens = sum([view.tokens for view in views])
    marked = tuple([i for i, view in enumerate(views, seen) if view.has_mark])
    chain = chained(views, 0 if before is None else before.chain)[-1]
    if before is not None:
        tokens += before.tokens
    return Prefix(views, spans, tokens, marked, seen + len(views), chain, before, cuts, digest)


def chained(views: Sequence[View], before: int = 0) -> list[int]:
    """The hash that names the beginning of a conversation, of 0, of 1, and so on of these messages; `before` names what
    is before them."""
    chain = [before]
    for view in views:
        before = hash((before, view.digest))
        chain.append(before)
    return chain
