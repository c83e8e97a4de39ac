"""Both ends of an exchange on the client's side, as plain values: what came in, and where the answer goes.

The server makes them from ASGI; tests and the demo could make them from anything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

import msgspec

Headers = Sequence[tuple[bytes, bytes]]


def first_values(headers: Headers) -> dict[bytes, bytes]:
    """Headers by name; of repeated ones the first counts."""
    return dict(reversed(headers))


class Incoming(msgspec.Struct, frozen=True):
    """A client's request. `path` is escaped as it came, header names are in lower case; `fields` are their first
    values."""

    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    request_id: str
    fields: Mapping[bytes, bytes]

    def header(self, name: bytes) -> str:
        """The first value of a header, or an empty string."""
        return self.fields.get(name, b"").decode("latin-1")

    def flag(self, name: bytes) -> bool:
        value = self.fields.get(name)
        return value is not None and value.strip().lower() in (b"true", b"1", b"yes")


# What an exchange is cancelled with when the server stops before it is done; without it the client has gone.
STOPPING = "stopping"


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


class Downstream(Protocol):
    """Where the answer goes. `start` once, then `write` any number of times, then `end`."""

    @property
    def started(self) -> bool: ...

    async def start(self, status: int, headers: Headers) -> None: ...

    async def write(self, chunk: bytes) -> None: ...

    async def end(self, chunk: bytes = b"") -> None: ...
