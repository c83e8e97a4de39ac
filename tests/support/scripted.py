"""A real upstream on a loopback port that answers by script and remembers every byte it was sent.

    async with ScriptedUpstream(reply(503), json_reply({"ok": True})) as upstream:
        ...                                   # call upstream.base_url
    assert upstream.requests[0].header(b"host") == ...

The n-th request gets the n-th script, the last script serves for all that follow. A script is a sequence of
steps, made by `reply`, `json_reply` and `sse_reply` or written by hand:

    bytes       written to the socket at once
    Pause(s)    seconds of silence
    STALL       silence until the other side leaves
    CLOSE       end of the connection (FIN), also in the middle of an answer
    RESET       the connection is torn down (RST)

A script may also be a function from the received request to such a sequence. The connection stays open
after a script without CLOSE or RESET, as HTTP/1.1 has it. `upstream.left` is set when a client goes away in
the middle of a script, `upstream.connections` counts accepted connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip as gzip_
import socket
import ssl
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec


@dataclass(frozen=True)
class Pause:
    seconds: float


class End(Enum):
    STALL = "stall"
    CLOSE = "close"
    RESET = "reset"


STALL, CLOSE, RESET = End.STALL, End.CLOSE, End.RESET
Step = bytes | Pause | End
Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Received:
    """One request as it came. `body` is without chunked framing, `raw` is every byte."""

    method: str
    target: str
    headers: Headers
    body: bytes
    raw: bytes
    connection: int

    def header(self, name: bytes) -> bytes | None:
        return next((value for key, value in self.headers if key.lower() == name), None)

    def all(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key.lower() == name]

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


Script = Sequence[Step] | Callable[[Received], Sequence[Step]]


def reply(
    status: int = 200,
    body: bytes = b"",
    headers: Headers = (),
    *,
    gzip: bool = False,
    chunked: bool = False,
    split: int = 0,
) -> list[Step]:
    """A whole answer. `split` writes the body in pieces of that many bytes, each in its own write."""
    body = gzip_.compress(body) if gzip else body
    lines = [b"HTTP/1.1 %d Scripted" % status, *(name + b": " + value for name, value in headers)]
    if gzip:
        lines.append(b"content-encoding: gzip")
    lines.append(b"transfer-encoding: chunked" if chunked else b"content-length: %d" % len(body))
    pieces = [body[i : i + split] for i in range(0, len(body), split)] if split else [body] * bool(body)
    head = b"\r\n".join(lines) + b"\r\n\r\n"
    return [head, *(map(chunk, pieces) if chunked else pieces), *([b"0\r\n\r\n"] if chunked else [])]


def json_reply(value: Any, status: int = 200, headers: Headers = (), **more: Any) -> list[Step]:
    """A JSON answer; `more` as in `reply`."""
    typed = [(b"content-type", b"application/json"), *headers]
    return reply(status, msgspec.json.encode(value), typed, **more)


def sse_reply(*events: bytes | Pause | End, headers: Headers = (), done: bool = True, split: int = 0) -> list[Step]:
    """A stream of `data:` events, each in a chunk of its own. `done=False` leaves `[DONE]` out. A step that
    is no bytes is kept where it stands; after CLOSE, RESET or STALL nothing follows, no last chunk either."""
    typed = [(b"content-type", b"text/event-stream"), *headers]
    steps: list[Step] = [reply(200, b"", typed, chunked=True)[0]]
    for event in (*events, *([b"[DONE]"] if done else [])):
        if not isinstance(event, bytes):
            steps.append(event)
            if isinstance(event, End):
                return steps
            continue
        data = b"data: " + event + b"\n\n"
        steps += [chunk(data[i : i + split]) for i in range(0, len(data), split)] if split else [chunk(data)]
    return [*steps, b"0\r\n\r\n"]


def chunk(data: bytes) -> bytes:
    """One chunk of HTTP/1.1's chunked framing."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def closed_port() -> int:
    """A loopback port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ScriptedUpstream:
    """The server; see the module's docstring. Without a script it answers `{"ok": true}`."""

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.scripts = scripts or (json_reply({"ok": True}),)
        self.requests: list[Received] = []
        self.connections = 0
        self.left = asyncio.Event()
        self._tls = tls
        self.port = port
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> ScriptedUpstream:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, ssl=self._tls, limit=1 << 27)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def origin(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        return self.origin + "/v1"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        number = self.connections
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._serve(reader, writer, number):
                pass
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        received = await receive(reader, number)
        script = self.scripts[min(len(self.requests), len(self.scripts) - 1)]
        self.requests.append(received)
        steps = script(received) if callable(script) else script
        stays = await play(steps, reader, writer)
        if stays is None:
            self.left.set()
        return bool(stays)


async def play(steps: Iterable[Step], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool | None:
    """Perform a script; True when the connection stays open for another request, None when the client left."""
    playing = asyncio.ensure_future(_play(steps, writer))
    watching = asyncio.ensure_future(_gone(reader))
    try:
        done, _ = await asyncio.wait({playing, watching}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        playing.cancel()
        watching.cancel()
    return playing.result() if playing in done and playing.exception() is None else None


async def receive(reader: asyncio.StreamReader, number: int = 1) -> Received:
    """Read one request, byte for byte."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head[:-4].split(b"\r\n")
    method, target, _ = first.split(b" ")
    headers = [(name, value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
    fields = {name.lower(): value for name, value in headers}
    if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
        body, framed = await _read_chunked(reader)
    else:
        body = framed = await reader.readexactly(int(fields.get(b"content-length", b"0")))
    return Received(method.decode(), target.decode(), headers, body, head + framed, number)


async def _read_chunked(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    pieces: list[bytes] = []
    raw: list[bytes] = []
    while True:
        line = await reader.readuntil(b"\r\n")
        data = await reader.readexactly(int(line, 16) + 2)
        raw += [line, data]
        if len(data) == 2:
            return b"".join(pieces), b"".join(raw)
        pieces.append(data[:-2])


async def _play(steps: Iterable[Step], writer: asyncio.StreamWriter) -> bool:
    """Perform a script; True when the connection stays open for another request."""
    for step in steps:
        if isinstance(step, bytes):
            writer.write(step)
            await writer.drain()
            await asyncio.sleep(0)
        elif isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
        elif step is STALL:
            await asyncio.Event().wait()
        else:
            if step is RESET:
                tear_down(writer)
            return False
    return True


def tear_down(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN: a lingering time of 0 seconds says so to the kernel."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _gone(reader: asyncio.StreamReader) -> None:
    """Returns when the other side has left. Polled: reading would take the next request's first byte."""
    while not reader.at_eof() and reader.exception() is None:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
