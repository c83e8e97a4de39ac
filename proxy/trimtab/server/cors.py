"""Cross-origin requests of browsers, from the origins an operator allows (Fetch standard, "CORS protocol").

A browser asks first, without a key (the preflight), so that question is answered here, before access is checked. Every
answer to an allowed origin, also an error of ours, carries the headers without which a page cannot read it. They
replace those an upstream sent for its own pages.
"""

from __future__ import annotations

from collections.abc import Sequence

from litestar.types import ASGIApp

from trimtab.server.watch import Message, Receive, Send

_METHODS = b"GET, POST, PUT, PATCH, DELETE"
_REMEMBERED_S = b"600"  # seconds for which a browser need not ask again; Chromium takes at most 7,200
_PREFIX = b"access-control-"

Headers = list[tuple[bytes, bytes]]


class Cors:
    """`app` for browsers too. `origins` are as browsers send them, `https://host:port`; `*` is any."""

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        self._app = app
        self._any = "*" in origins
        self._origins = frozenset(origin.encode() for origin in origins)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        fields = dict(scope["headers"]) if scope["type"] == "http" else {}
        origin = fields.get(b"origin", b"")
        if not (self._any and origin) and origin not in self._origins:
            return await self._app(scope, receive, send)  # type: ignore[arg-type]
        if scope["method"] == "OPTIONS" and b"access-control-request-method" in fields:
            await send({"type": "http.response.start", "status": 204, "headers": _preflight(origin, fields)})
            return await send({"type": "http.response.body", "body": b"", "more_body": False})

        async def send_with_origin(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": _readable(origin, message["headers"])}
            await send(message)

        await self._app(scope, receive, send_with_origin)  # type: ignore[arg-type]


def _preflight(origin: bytes, fields: dict[bytes, bytes]) -> Headers:
    allowed = [
        *_allowing(origin),
        (b"access-control-allow-methods", _METHODS),
        (b"access-control-allow-headers", fields.get(b"access-control-request-headers", b"*")),
        (b"access-control-max-age", _REMEMBERED_S),
    ]
    if b"access-control-request-private-network" in fields:  # a public page that calls a proxy on loopback
        allowed.append((b"access-control-allow-private-network", b"true"))
    return allowed


def _readable(origin: bytes, headers: Sequence[tuple[bytes, bytes]]) -> Headers:
    others = [pair for pair in headers if not bytes(pair[0]).lower().startswith(_PREFIX)]
    return [*others, *_allowing(origin), (b"access-control-expose-headers", b"*")]


def _allowing(origin: bytes) -> Headers:
    return [(b"access-control-allow-origin", origin), (b"vary", b"Origin")]
