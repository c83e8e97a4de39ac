"""The floor: the least a relay of this stack can do. Same server, same application framework, same client session.

    python -m tests.bench.floor PORT UPSTREAM_ORIGIN

A raw ASGI mount reads the body, sends it on with its end-to-end headers and hands the answer back chunk by chunk. It
reads nothing, decides nothing, counts nothing, and no error of its own is handled: what the proxy costs above it is
what the proxy does.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

import uvloop
from granian.constants import HTTPModes, Interfaces
from granian.server.embed import Server
from litestar import Litestar, asgi
from multidict import CIMultiDict
from yarl import URL

from trimtab.upstream.client import open_session

_HOP = (b"host", b"connection", b"content-length", b"transfer-encoding", b"keep-alive")


def create_app(origin: str) -> Litestar:
    session: Any = None

    @asgi("/v1", is_mount=True, copy_scope=False)
    async def relay(scope: Any, receive: Any, send: Any) -> None:
        nonlocal session
        session = session or open_session()
        parts, more = [], True
        while more:
            message = await receive()
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
        headers = CIMultiDict((k.decode(), v.decode()) for k, v in scope["headers"] if k not in _HOP)
        url = URL(origin + scope["raw_path"].decode(), encoded=True)
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        async with session.request(scope["method"], url, headers=headers, data=body or None) as answer:
            kept = [(k.lower(), v) for k, v in answer.raw_headers if k.lower() not in _HOP]
            await send({"type": "http.response.start", "status": answer.status, "headers": kept})
            while chunk := await answer.content.readany():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return Litestar([relay], openapi_config=None, logging_config=None)


async def serve(app: Litestar, port: int) -> None:
    """Serve an application as the proxy's own server is set up, until SIGTERM."""
    server = Server(
        app,
        address="127.0.0.1",
        port=port,
        interface=Interfaces.ASGI,
        http=HTTPModes.http1,
        websockets=False,
        backlog=2048,
        backpressure=5000,
        log_enabled=False,
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.stop)
    await server.serve()


if __name__ == "__main__":
    uvloop.run(serve(create_app(sys.argv[2]), int(sys.argv[1])))
