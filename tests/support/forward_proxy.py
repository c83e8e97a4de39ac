"""An HTTP proxy as companies have it: it passes absolute-form requests on and opens tunnels for CONNECT."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from urllib.parse import urlsplit


class ForwardProxy:
    """Listens on a free loopback port. `asked` has the first line of every request, `heads` the whole heads; `status`
    replaces its answer to CONNECT."""

    def __init__(self, status: bytes = b"200 Connection established") -> None:
        self.asked: list[str] = []
        self.heads: list[bytes] = []
        self._status = status

    async def __aenter__(self) -> ForwardProxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        line, rest = head.split(b"\r\n", 1)
        self.asked.append(line.decode())
        method, target, version = line.split(b" ")
        tunnel = method == b"CONNECT"
        url = urlsplit(f"//{target.decode()}" if tunnel else target.decode())
        if tunnel and not self._status.startswith(b"200"):
            writer.write(b"HTTP/1.1 %s\r\ncontent-length: 0\r\n\r\n" % self._status)
            writer.close()
            return
        assert url.hostname is not None
        upstream, onward = await asyncio.open_connection(url.hostname, url.port or 80)
        if tunnel:
            writer.write(b"HTTP/1.1 %s\r\n\r\n" % self._status)
        else:
            onward.write(b" ".join((method, url.path.encode(), version)) + b"\r\n" + rest)
        await asyncio.gather(_copy(reader, onward), _copy(upstream, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
