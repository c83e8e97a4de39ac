"""ASGI on one side, the plain values of the exchange on the other: the request, its body, and the answer to it.

The body is bounded while it is read, and counted as held (`load`) until it is released.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import suppress
from random import getrandbits
from typing import Any

from trimtab.errors import BodyTooLarge, UnknownEncoding, UploadTimeout
from trimtab.exchange.incoming import ClientGone, Headers, Incoming, asks_of, first_values
from trimtab.exchange.spellings import paths_of
from trimtab.server.load import Load
from trimtab.server.watch import Message, Receive, Send
from trimtab.wire.encoding import decode_body
from trimtab.wire.media import parse_content_length

Fields = Mapping[bytes, bytes]

# Seconds of silence within an upload after which its place is given to another; nginx's client_body_timeout.
UPLOAD_PAUSE_S = 60.0

# Seconds for which an upload is still read, and dropped, after it was answered. A connection closed under an upload is
# reset, and the client sees that instead of the answer (nginx's lingering_close).
LINGER_S = 2.0


class RequestBody:
    """The body of an ASGI request, read whole (decoded and bounded) or as it arrives.

    `complete`: all of it has arrived. No wait is longer than `pause_s` seconds while `check_pause` is called now and
    then. `max_bytes` bounds the body, also after it is decoded.
    """

    def __init__(
        self, receive: Receive, fields: Fields, load: Load, max_bytes: int, pause_s: float = UPLOAD_PAUSE_S
    ) -> None:
        self._receive, self._load, self._max, self._pause_s = receive, load, max_bytes, pause_s
        self._encoding = fields[b"content-encoding"].decode("latin-1") if b"content-encoding" in fields else ""
        stated = b"content-length" in fields and b"transfer-encoding" not in fields
        self._left = parse_content_length(fields[b"content-length"]) if stated else None
        self.held = 0
        self.complete = self.gone = False
        self._waiting: asyncio.Task[Any] | None = None  # for the client's next message
        self._since: float | None = None  # and since when, as far as `check_pause` has seen
        self._given_up = False

    async def read(self) -> bytes:
        """All of it, content-encoding removed. Raises BodyTooLarge, Overloaded, ClientGone and UploadTimeout;
        UnknownEncoding, and InvalidRequest for a body that cannot be decoded."""
        if self._left is not None and self._left > self._max:
            raise self._too_large()
        parts: list[bytes] = []
        while not self.complete:
            chunk = await self._next()
            self.hold(len(chunk))
            parts.append(chunk)
        raw = parts[0] if len(parts) == 1 else b"".join(parts)
        return await self._decoded(raw) if self._encoding not in ("", "identity") else raw

    async def chunks(self) -> AsyncIterator[bytes]:
        """The bytes as they arrive, untouched. Raises ClientGone and UploadTimeout."""
        while not self.complete:
            if chunk := await self._next():
                yield chunk

    def check_pause(self, now: float) -> None:
        """Stop waiting when nothing has arrived for too long. `now` is in seconds, of any clock."""
        if self._waiting is None or self._given_up:
            return
        if self._since is None:
            self._since = now
        elif now - self._since >= self._pause_s:
            self._given_up = True
            self._waiting.cancel()

    async def _next(self) -> bytes:
        """The next bytes. A Content-Length tells which are the last; without it, that takes one more message, which is
        empty and costs a change of threads."""
        self._waiting = task = asyncio.current_task()
        self._since = None
        try:
            message = await self._receive()
        except asyncio.CancelledError:
            if self._given_up and task is not None and not task.uncancel():
                raise self._paused() from None
            raise
        finally:
            self._waiting = None
        if message["type"] == "http.disconnect":
            self.gone = True
            raise ClientGone
        chunk: bytes = message.get("body", b"")
        if self._left is not None:
            self._left -= len(chunk)
        self.complete = self._left == 0 or not message.get("more_body", False)
        return chunk

    def _paused(self) -> UploadTimeout:
        return UploadTimeout(
            f"The request body stopped for {self._pause_s:g} seconds before it was complete. Send it again."
        )

    async def discard(self) -> None:
        """Read what is still to come and drop it, for `LINGER_S` seconds at most, unless it is being read already."""
        if self._waiting is not None:
            return
        self.release()
        with suppress(TimeoutError, ClientGone):
            async with asyncio.timeout(LINGER_S):
                while not self.complete:
                    await self._next()

    def release(self) -> None:
        """Count the body as no longer held."""
        self._load.release(self.held)
        self.held = 0

    def hold(self, size: int) -> None:
        """See `Body.hold`."""
        if self.held + size > self._max:
            raise self._too_large()
        self._load.hold(size)
        self.held += size

    async def _decoded(self, raw: bytes) -> bytes:
        """In a thread: a few kilobytes may become `max_body_mb`. The decoders let others run."""
        body = await asyncio.to_thread(decode_body, raw, self._encoding, self._max)
        if body is None:
            raise UnknownEncoding("Unknown Content-Encoding of the request body. Use gzip, deflate, br, zstd or none.")
        self.hold(max(0, len(body) - len(raw)))
        return body

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(
            f"The request body is larger than {self._max >> 20} MB. Send less, or raise max_body_mb in [server] "
            "(max_in_flight_mb too, where that is lower)."
        )


class Response:
    """The client's side of an answer, a `Downstream`. An answer that begins before the whole body was read closes the
    connection and states it: the server closes it then, and the client's next request would fail on it."""

    def __init__(self, send: Send, body: RequestBody) -> None:
        self._send, self._body = send, body
        self.started = self.lingers = False

    async def start(self, status: int, headers: Headers) -> None:
        """See `Downstream.start`."""
        self.started = True
        if not self._body.complete:
            headers = [*headers, (b"connection", b"close")]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send(self, message: Message) -> None:
        """Send what another ASGI application answers."""
        if message["type"] == "http.response.start":
            await self.start(message["status"], message["headers"])
        else:
            await self._send(message)

    def write(self, chunk: bytes) -> Awaitable[None]:
        """See `Downstream.write`."""
        return self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self, chunk: bytes = b"") -> None:
        """See `Downstream.end`."""
        self.lingers = not (self._body.complete or self._body.gone)
        await self._send({"type": "http.response.body", "body": chunk, "more_body": self.lingers})

    async def linger(self) -> None:
        """End an answer that was given before the whole body came (`lingers`): first read what is left of the body, and
        drop it."""
        if self.lingers:
            await self._body.discard()
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def incoming_of(scope: Message) -> Incoming:
    """The request as a value (ASGI gives header names in lower case). It keeps the client's `x-request-id`, or gets a
    random one."""
    headers = list(scope["headers"])
    fields = first_values(headers)
    path, endpoint = paths_of(scope["method"], scope.get("raw_path") or scope["path"].encode())
    given = fields[b"x-request-id"].decode("latin-1") if b"x-request-id" in fields else ""
    request_id = given[:128] if given and given.isprintable() else f"{getrandbits(128):032x}"
    query, asks = scope["query_string"], asks_of(fields)
    return Incoming(scope["method"], path, endpoint, query, headers, request_id, fields, asks)
