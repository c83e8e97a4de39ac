"""Bytes to a socket and back: what no HTTP library would send, and what none would show."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

BODY = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
CLOSE_AFTER = b"connection: close\r\n"


@dataclass(frozen=True)
class Answer:
    """What came back. `ended`: the server closed the connection; `reset`: not in order."""

    raw: bytes
    ended: bool
    reset: bool = False

    @property
    def status(self) -> int:
        """Of the first answer that is not a 100; 0 when none came."""
        rest = self.raw
        while rest.startswith(b"HTTP/1.1 100"):
            rest = rest.partition(b"\r\n\r\n")[2]
        return int(rest.split(b" ", 2)[1]) if rest.startswith(b"HTTP/1.") else 0

    @property
    def body(self) -> bytes:
        return self.raw.partition(b"\r\n\r\n")[2]


def request(
    path: bytes = b"/v1/chat/completions",
    body: bytes = BODY,
    extra: bytes = CLOSE_AFTER,
    method: bytes = b"POST",
    version: bytes = b"HTTP/1.1",
    length: bool = True,
) -> bytes:
    """One request, with whatever `extra` header lines."""
    stated = b"content-length: %d\r\n" % len(body) if length else b""
    return b"%b %b %b\r\nhost: x\r\n%b%b\r\n%b" % (method, path, version, extra, stated, body)


async def opened(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = url.removeprefix("http://").split(":")
    return await asyncio.open_connection(host, int(port))


async def exchange(url: str, data: bytes, *, half: bool = False, wait_s: float = 3.0) -> Answer:
    """Send `data` (then FIN where `half`) and read until the server closes, or for `wait_s` seconds."""
    reader, writer = await opened(url)
    got = bytearray()
    reset = False
    try:
        with contextlib.suppress(ConnectionError):
            writer.write(data)
            await writer.drain()
            if half:
                writer.write_eof()
        async with asyncio.timeout(wait_s):
            while piece := await reader.read(1 << 16):
                got += piece
    except TimeoutError:
        return Answer(bytes(got), False)
    except ConnectionError:
        reset = True
    finally:
        writer.close()
    return Answer(bytes(got), True, reset)
