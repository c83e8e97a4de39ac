"""From the bytes of a request to the conversation in it; what a request before it began with is not read again."""

from __future__ import annotations

import msgspec

from trimtab.context.read.history import History, resumed
from trimtab.context.read.openings import Found, Openings
from trimtab.context.read.views import Memo
from trimtab.wire.chat import ChatRequest, decode


class Reading(msgspec.Struct, frozen=True):
    """A request, and what was known of its beginning when it was read."""

    request: ChatRequest
    found: Found


class Reader:
    """Reads requests, and remembers how they begin and what their messages are. One for the process."""

    def __init__(self, memo: Memo, openings: Openings | None = None) -> None:
        self._memo, self._openings = memo, openings or Openings()

    def read(self, body: bytes, owner: bytes = b"") -> Reading:
        """Find the messages in a body; `owner` is whoever sends it. Raises what `chat.decode` raises."""
        found = self._openings.find(body, owner)
        return Reading(decode(body, found.spans), found)

    def history(self, reading: Reading) -> History:
        """See what the messages are."""
        request, messages = reading.request, reading.request.messages
        holds = len(messages.known) == len(reading.found.spans)  # else the body was read without it
        found = reading.found if holds else Found([])
        conversation = resumed(found, messages, request.extras, self._memo)
        if request.source is request.body:
            self._openings.keep(found, messages, conversation.views)
        return conversation
