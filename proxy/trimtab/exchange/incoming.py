"""Both ends of an exchange on the client's side, as plain values: the request, and where its answer goes.

The server makes them from ASGI; tests make them from anything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Protocol

import msgspec

from trimtab.errors import BodyTooLarge
from trimtab.wire.messages import Messages, Parts, listed, new_bytes
from trimtab.wire.request import Request
from trimtab.wire.values import has_more_entries, has_more_values

CHAT = "/v1/chat/completions"
PLAN = "/v1/context/plan"
BODILESS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})  # methods whose requests are taken to have no body
# What an exchange is cancelled with when the server stops before it is done; without it the client has gone.
STOPPING = "stopping"

REQUEST_ID = b"x-trimtab-request-id"  # of every answer: the id that the log has

_FIELDS_PER_VALUE = 2
_OF_ONE_MESSAGE = 0.4  # one call decodes a message, here within 20 ms, and no other thread runs meanwhile

Headers = Sequence[tuple[bytes, bytes]]


def first_values(headers: Headers) -> dict[bytes, bytes]:
    """Headers by name; of repeated ones the first counts."""
    return dict(reversed(headers))


class Bounds(msgspec.Struct, frozen=True):
    """What one chat request may hold, so that no request takes the time and memory of a thousand others."""

    max_messages: int = 100_000
    max_values: int = 500_000

    def check_values(self, body: bytes, start: int = 0) -> None:
        """Raises BodyTooLarge for JSON whose lists have more than `max_values` entries from byte `start` on, where the
        part begins that was not read before; costs nothing for fewer bytes. Fields of its objects may be twice as
        many: a long conversation has a dozen in each step."""
        most = self.max_values
        if len(body) > most and has_more_entries(body, most, _FIELDS_PER_VALUE * most, start):
            raise BodyTooLarge(
                f"The request body has more than {self.max_values} JSON values in lists. Send fewer, or raise "
                "max_values in [server]."
            )

    def check_messages(self, request: Request) -> None:
        """Raises BodyTooLarge for more than `max_messages` messages, for one message that has more than two fifths of
        `max_values` values, and for more than `max_values` beside the messages. Of what was read before only the number
        of messages is looked at."""
        size, most = len(request.source), int(self.max_values * _OF_ONE_MESSAGE)
        if size <= most and size <= self.max_messages:
            return  # a message takes a byte at least
        count = len(request.messages)
        if count > self.max_messages:
            raise BodyTooLarge(
                f"The request has {count} messages, more than {self.max_messages}. Start a new chat, or raise "
                "max_messages in [server].",
                param="messages",
            )
        if size <= most or new_bytes(request.source, request.messages) <= most:
            return
        messages = request.messages
        fresh = messages.fresh if isinstance(messages, Messages | Parts) else messages
        if any([len(raw) > most and has_more_values(bytes(raw), most) for raw in fresh]):
            raise BodyTooLarge(
                f"One message of the request has more than {most} JSON values. Send fewer, or raise max_values in "
                "[server]."
            )
        if any([has_more_values(bytes(raw), self.max_values) for raw in (*request.extras, _beside(request))]):
            raise BodyTooLarge(
                f"What stands beside the messages has more than {self.max_values} JSON values. Send fewer, or raise "
                "max_values in [server]."
            )


def _beside(request: Request) -> bytes:
    """What of a body stands beside its messages; all of it where their places are not known."""
    messages = listed(request.messages)
    spans = messages.spans if messages is not None else None
    return request.source[: spans[0].start] + request.source[spans[-1].stop :] if spans else request.source


class Asks(msgspec.Struct, frozen=True):
    """What a request asks of this proxy, in headers of its own. `profile` and `hint` are names as they were sent."""

    bypass: bool = False
    observe: bool = False
    explain: bool = False
    profile: str = ""
    hint: str = ""


_NOTHING = Asks()
_ASKING = frozenset(f"x-trimtab-{name}".encode() for name in Asks.__struct_fields__)


def asks_of(fields: Mapping[bytes, bytes]) -> Asks:
    """What is asked in headers, given by name. A flag is set by true, 1 or yes."""
    if _ASKING.isdisjoint(fields):
        return _NOTHING

    def text(name: bytes) -> str:
        return fields.get(b"x-trimtab-" + name, b"").decode("latin-1")

    def flag(name: bytes) -> bool:
        return text(name).strip().lower() in ("true", "1", "yes")

    return Asks(flag(b"bypass"), flag(b"observe"), flag(b"explain"), text(b"profile"), text(b"hint"))


class Incoming(msgspec.Struct, frozen=True):
    """A client's request. `path` is escaped as received, `endpoint` is its plain spelling; header names are in lower
    case, `fields` has the first value of each."""

    method: str
    path: str
    endpoint: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    request_id: str
    fields: Mapping[bytes, bytes]
    asks: Asks

    def header(self, name: bytes) -> str:
        """The first value of a header, or an empty string."""
        return self.fields.get(name, b"").decode("latin-1")

    @property
    def wants_upgrade(self) -> bool:
        """True for a client that asks for a WebSocket (RFC 6455 §4.1)."""
        return b"upgrade" in self.fields and self.fields[b"upgrade"].lower() == b"websocket"


class ClientGone(Exception):
    """The client closed the connection before its request was complete."""


class Body(Protocol):
    """The client's body, read once: whole or as it comes."""

    async def read(self) -> bytes:
        """All of it, content-encoding removed. Raises BodyTooLarge, InvalidRequest, ClientGone."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """As it comes, bytes untouched."""
        ...

    def hold(self, size: int) -> None:
        """Count `size` bytes more as held, of a body that was made of this one. Raises BodyTooLarge, Overloaded."""
        ...


class Downstream(Protocol):
    """Where the answer goes. `start` once, then `write` any number of times, then `end`."""

    @property
    def started(self) -> bool:
        """The status and the headers have been sent."""
        ...

    async def start(self, status: int, headers: Headers) -> None:
        """Send the status and the headers."""
        ...

    def write(self, chunk: bytes) -> Awaitable[None]:
        """Send a part of the body."""
        ...

    async def end(self, chunk: bytes = b"") -> None:
        """Send the last part of the body."""
        ...


def with_request_id(headers: Headers, request_id: str) -> list[tuple[bytes, bytes]]:
    """The headers of an answer with our id of the request; as `x-request-id` too, unless the upstream set its own."""
    ours = request_id.encode("latin-1", "replace")
    there = dict(headers)
    if REQUEST_ID in there:  # of another Trimtab behind this one
        headers = [pair for pair in headers if pair[0] != REQUEST_ID]
    own = () if b"x-request-id" in there else ((b"x-request-id", ours),)
    return [*headers, *own, (REQUEST_ID, ours)]


async def reply(downstream: Downstream, status: int, headers: Headers, body: bytes, request_id: str) -> None:
    """Send a whole answer of our own, with its length and the request's id."""
    length = str(len(body)).encode()
    await downstream.start(status, with_request_id([*headers, (b"content-length", length)], request_id))
    await downstream.end(body)
