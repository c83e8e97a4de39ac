"""What an exchange knows of a wire format: one `Dialect` each for chat completions, responses and messages.

The planner, the budgets, what is learned and the relay are the same for all. Whoever needs to know how a body is read,
what an event says or how an error is written asks the request's dialect; nothing asks which dialect it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from trimtab.context.apply.format import Format
from trimtab.errors import TrimtabError
from trimtab.wire.cuts import Spans
from trimtab.wire.messages import ToSend
from trimtab.wire.request import Request
from trimtab.wire.usage import Usage

Name = Literal["chat", "responses", "messages"]


class _Event(msgspec.Struct):
    type: Any = None


_decode_event = msgspec.json.Decoder(_Event).decode


def event_type(data: bytes) -> str:
    """The type that the data of an event names; "" for none. Never raises."""
    try:
        kind = _decode_event(data).type
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return kind if isinstance(kind, str) else ""


class Dialect(Protocol):
    """One wire format. `path` is where its requests go; `listed` is the field that holds the conversation."""

    @property
    def name(self) -> Name:
        """The dialect's name in metrics and logs."""
        ...

    @property
    def path(self) -> str:
        """The path of the requests that are managed."""
        ...

    @property
    def listed(self) -> str:
        """The field of a body that holds the conversation."""
        ...

    @property
    def format(self) -> Format:
        """How one message is read and written."""
        ...

    @property
    def cached_fields(self) -> tuple[str, ...]:
        """Of a body beside the messages: what a provider's cache key covers or its routing goes by. They go with a call
        that asks for a summary by one more message after what was sent; none where such a call misses the cache."""
        ...

    @property
    def instructed(self) -> str:
        """The field of a body that holds a system prompt beside the messages; "" where that is one of them."""
        ...

    @property
    def limited(self) -> str:
        """The field that limits the output, in tokens."""
        ...

    @property
    def binding(self) -> tuple[bytes, ...]:
        """Words of an error that says that thinking is no longer valid after what was sent."""
        ...

    def decode(self, body: bytes, known: Spans | None = None) -> Request:
        """Read a body. Raises InvalidRequest for what is not JSON, Unreadable for what cannot be read as a request, and
        Unmanaged for a conversation that the server holds."""
        ...

    def render(self, request: Request, messages: ToSend | None, changes: Mapping[str, Any]) -> bytes:
        """The body with these messages (None: its own) and changed fields; a field that is None is removed."""
        ...

    def capped(self, request: Request, tokens: int) -> Mapping[str, object]:
        """The fields that limit the output to `tokens`, where the request has a higher limit."""
        ...

    def announced(self, request: Request) -> Mapping[str, object]:
        """The fields that hold the announcement, where it is not one of the messages; none where they have it."""
        ...

    def usage(self, data: bytes, before: Usage | None) -> Usage | None:
        """The usage in a whole answer, or in the data of one event after those that reported `before`. None where it
        reports none. Never raises."""
        ...

    def says_nothing(self, data: bytes) -> bool:
        """True for an event that comes before anything is known of the answer. Never raises."""
        ...

    @property
    def appends_chunk(self) -> bool:
        """True where the fields that a client asked for are an event of their own, before the end of a stream."""
        ...

    def added(self, data: bytes, fields: Mapping[str, Any]) -> bytes | None:
        """The data of an event with the fields that a client asked for, where this is the event that has them. Never
        raises."""
        ...

    @property
    def own_headers(self) -> Sequence[tuple[bytes, bytes]]:
        """Headers that a call of our own needs."""
        ...

    def asked(self, chat: Mapping[str, Any], tokens: int) -> Mapping[str, Any]:
        """The body of a call of our own, from one of chat; `tokens`: the most of its answer."""
        ...

    def answered(self, raw: bytes) -> bytes:
        """The answer to a call of our own in chat's form. Raises msgspec.MsgspecError for what is no answer."""
        ...

    def status(self, error: TrimtabError) -> int:
        """The HTTP status of an error."""
        ...

    def envelope(self, error: TrimtabError, request_id: str | None = None) -> bytes:
        """The body of an error."""
        ...

    def event(self, error: TrimtabError) -> bytes:
        """The event that ends a stream with an error."""
        ...
