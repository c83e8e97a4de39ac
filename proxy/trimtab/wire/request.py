"""A request as a value, in any of the formats: the bytes received, and what was read of them.

Bytes are sacred: the messages and the fields are raw slices of the body, and a format's `render` writes them back with
only the named fields replaced.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw

LONGEST_MODEL = 1_000  # characters: a name is looked up, logged and counted


class Unreadable(Exception):
    """JSON that cannot be read here as a request. The upstream may still accept it, so it is sent unshaped."""


class Unmanaged(Unreadable):
    """A request that is understood and not shaped, because the server holds the conversation. `reason` is the field
    that names it."""

    def __init__(self, reason: str, model: str = "") -> None:
        super().__init__(f"a part of a conversation that the server holds ({reason})")
        self.reason, self.model = reason, model if len(model) <= LONGEST_MODEL else ""


class Carried(msgspec.Struct, frozen=True):
    """What a call of our own carries over from the client's request, so that it goes the same way: the headers that are
    about neither its connection nor its body, and the query; and the path, where that names an Azure deployment."""

    headers: tuple[tuple[bytes, bytes], ...] = ()
    query: bytes = b""
    path: str = ""

    def __repr__(self) -> str:
        return f"Carried({len(self.headers)} headers)"


NOTHING_CARRIED = Carried()


class Request(msgspec.Struct, frozen=True):
    """One request.

    `body` is what was received. `source` is what the raw slices point into: the same bytes, unless lone surrogates were
    replaced or a byte order mark was removed to read them. `messages` is what is planned one by one: messages of a
    chat, items of a response. `max_tokens` is the larger of the request's output limits, in tokens. `extras` are the
    fields beside the messages that a model reads, such as tools; `instructed`: the first of them is the system prompt,
    which is a field of its own in some formats. `routing` are the fields by which it chooses among the
    routes of its upstream (OpenRouter's `provider`, `models`, ...).
    """

    body: bytes
    source: bytes
    messages: Sequence[bytes | Raw]
    model: str = ""
    stream: bool = False
    max_tokens: int | None = None
    extras: tuple[bytes | Raw, ...] = ()
    has_tools: bool = False
    stream_options: dict[str, Raw] | None = None
    context_management: Raw | None = None
    routing: tuple[bytes | Raw, ...] = ()
    wants_json: bool = False  # a JSON object without a schema: the word "json" must be in a message
    instructed: bool = False
    reports_usage: bool = False  # a stream of this format always does

    @property
    def include_usage(self) -> bool:
        """True when the stream will report its usage: the client asked for it (`stream_options.include_usage`), or the
        format always does."""
        return self.reports_usage or bytes((self.stream_options or {}).get("include_usage", b"")) == b"true"
