"""What an answer adds to a conversation, as it is collected from a whole body or from the events of a stream."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Answer(msgspec.Struct, frozen=True):
    """`items`: what the client got, as JSON. `whole`: the answer ended as it should; else it broke off. `id` and
    `response` are of a response: its id, and its object without the output."""

    items: list[bytes]
    whole: bool
    id: str = ""
    response: bytes = b""


class Collector(Protocol):
    """Collects one answer. Never raises: what cannot be read adds nothing."""

    def read(self, body: bytes) -> None:
        """Read a whole answer."""
        ...

    def feed(self, data: bytes) -> bool:
        """Read the data of one event. True for the one after which nothing is added."""
        ...

    def answer(self) -> Answer:
        """What has been collected so far."""
        ...


def decoded(data: bytes, kind: type) -> object | None:
    """The value of these bytes, or None where they are no such value."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
