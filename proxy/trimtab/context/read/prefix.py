"""What is known of the beginning of one request body: views and places of its messages, never text.

A prefix goes on from a shorter one, so that a conversation keeps what was read of each message once.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trimtab.context.read.views import View
from trimtab.wire.cuts import Chunk, Cuts, Spans
from trimtab.wire.joined import Joined


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
    is_cut: bool = False  # some messages have parts; of all
    moves: bool = False  # some messages may have to move (`Cuts`); of all

    def parts(self) -> list[Prefix]:
        """The prefixes it goes on from, the shortest first, and itself."""
        chain: list[Prefix] = [self]
        while (before := chain[-1].before) is not None:
            chain.append(before)
        return chain[::-1]

    def all_marked(self) -> tuple[int, ...]:
        """What is `marked` of all its messages."""
        return tuple([i for prefix in self.parts() for i in prefix.marked])

    def all(self) -> tuple[Joined[View], Joined[slice]]:
        """Views and places of all its messages."""
        parts = self.parts()
        return Joined([prefix.views for prefix in parts]), Joined([prefix.spans for prefix in parts])

    def chunks(self) -> list[Chunk]:
        """Where its messages are, and their parts."""
        found, message, first = list[Chunk](), 0, 0
        for prefix in self.parts():
            found.append(Chunk(message, first, prefix.spans, prefix.cuts))
            message, first = message + len(prefix.spans), prefix.count
        return found


def extended(
    before: Prefix | None, seen: int, views: Sequence[View], spans: Spans, cuts: Cuts, digest: bytes
) -> Prefix:
    """The prefix that has more messages than `before`, which has `seen` views."""
    tokens = sum([view.tokens for view in views])
    marked = tuple([i for i, view in enumerate(views, seen) if view.has_mark])
    chain = chained(views, 0 if before is None else before.chain)[-1]
    if before is not None:
        tokens += before.tokens
    return Prefix(views, spans, tokens, marked, seen + len(views), chain, before, cuts, digest, *flags(before, cuts))


def flags(before: Prefix | None, cuts: Cuts) -> tuple[bool, bool]:
    """`is_cut` and `moves` of the prefix that goes on from `before` with messages that have these `cuts`."""
    is_cut, moves = bool(cuts), not all(cuts.values())
    return (is_cut, moves) if before is None else (before.is_cut or is_cut, before.moves or moves)


def chained(views: Sequence[View], before: int = 0) -> list[int]:
    """The hash that names the beginning of a conversation, of 0, of 1, and so on of these messages; `before` names what
    is before them."""
    chain = [before]
    for view in views:
        before = hash((before, view.digest))
        chain.append(before)
    return chain
