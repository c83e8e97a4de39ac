"""From the bytes of a request to its history: raw messages, their views, and what else the model reads.

Messages in a known prefix are not read again (see `prefixes`); a message seen before costs one lookup (see `memo`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Raw

from trimtab.context.read.memo import Memo
from trimtab.context.read.prefix import Prefix, chained
from trimtab.context.read.prefixes import Match, Prefixes
from trimtab.context.read.views import View
from trimtab.wire.chat import decode
from trimtab.wire.cuts import Spans
from trimtab.wire.messages import Messages, Parts, listed, new_bytes
from trimtab.wire.request import Request

_MOST_COPIED = 2_000  # messages: to copy the views of as many takes less time than to look into a joined sequence


class History(msgspec.Struct, frozen=True):
    """A conversation as received. Sizes are estimated tokens."""

    raws: Sequence[bytes | Raw]
    views: Sequence[View]
    extras: int  # of what the model reads beside the messages: tools, response format, prediction
    tokens: int  # of everything
    marked: tuple[int, ...] = ()  # messages that have a field `pinned`
    prefix: Prefix | None = None  # the one that was known when it was read
    instructions: int = 0  # of `extras`, those of a system prompt that stands beside the messages

    def chains(self, newest: int) -> list[int]:
        """The hashes that name its beginnings, the longest last: at least those of all but up to `newest` messages.
        See `prefixes.chained`."""
        known = self.prefix
        while known is not None and known.count > len(self.views) - newest:
            known = known.before
        return chained(self.views, 0) if known is None else chained(self.views[known.count :], known.chain)


def history(
    raws: Sequence[bytes | Raw], extras: Sequence[bytes | Raw], memo: Memo, *, instructed: bool = False
) -> History:
    """Read a conversation. `extras` are the raw JSON of tools and the like; `instructed`: the first of them is the
    system prompt."""
    views, sizes = memo.views(raws), memo.extras(extras)
    marked = tuple([i for i, view in enumerate(views) if view.has_mark])
    beside, instructions = sum(sizes), sizes[0] if instructed else 0
    tokens = beside + sum([view.tokens for view in views])
    return History(raws, views, beside, tokens, marked, instructions=instructions)


Decode = Callable[[bytes, Spans | None], Request]
"""Reads a body of one format; the places of messages that were read before are skipped."""


Check = Callable[[bytes, int], None]
"""Looks at a body before it is decoded, from the byte on that was not read before; raises where that is too much."""


def take_any(body: bytes, start: int) -> None:
    """The check that finds no body too much."""


class Reading(msgspec.Struct, frozen=True):
    """A request, and the prefix that was known when it was read."""

    request: Request
    match: Match

    @property
    def new(self) -> int:
        """Bytes of the body that were not read before."""
        return new_bytes(self.request.body, self.request.messages)


class Reader:
    """Reads requests of one format, and remembers their prefixes and messages. One for the process."""

    def __init__(self, memo: Memo, prefixes: Prefixes | None = None, decode: Decode = decode) -> None:
        self._memo, self._prefixes, self._decode = memo, prefixes or Prefixes(), decode

    def read(self, body: bytes, tenant: bytes = b"", check: Check = take_any) -> Reading:
        """Find the messages in a body. `tenant` is the credential it was sent with. Raises what `decode` and `check`
        raise."""
        match = self._prefixes.match(body, tenant)
        check(body, match.spans[-1].stop if match.spans else 0)
        request, prefix = self._decode(body, match.spans), match.prefix
        if prefix is not None and prefix.is_cut and isinstance(request.messages, Messages) and request.messages.known:
            request = self._decode(body, None)  # what is to be cut lies in what was known
        if prefix is not None and isinstance(request.messages, Parts) and request.messages.listed.known:
            marked, moves = bool(prefix.all_marked()), prefix.moves
            request.messages.divide(prefix.chunks(), len(match.views), marked=marked, moves=moves)
        return Reading(request, match)

    def history(self, reading: Reading) -> History:
        """The history of a request that was read."""
        request, messages = reading.request, listed(reading.request.messages)
        if messages is None:
            return history(request.messages, request.extras, self._memo, instructed=request.instructed)
        was_used = len(messages.known) == len(reading.match.spans)  # else the body was decoded from its start
        match = reading.match if was_used else Match([])
        found = _resumed(match, request, self._memo)
        if request.source is request.body:
            self._prefixes.remember(match, messages, found.views)
        return found


def _resumed(match: Match, request: Request, memo: Memo) -> History:
    """Read a conversation after a known prefix: only fresh messages are looked at."""
    prefix, messages = match.prefix, request.messages
    if prefix is None or not isinstance(messages, Messages | Parts):
        return history(messages, request.extras, memo, instructed=request.instructed)
    rest = history(messages.fresh, request.extras, memo, instructed=request.instructed)
    marked = prefix.all_marked() + tuple([i + len(match.views) for i in rest.marked])
    views: Sequence[View] = match.views.followed_by(rest.views)
    views = [*views] if len(views) < _MOST_COPIED else views
    tokens = prefix.tokens + rest.tokens
    return History(messages, views, rest.extras, tokens, marked, prefix, rest.instructions)
