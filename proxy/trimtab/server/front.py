"""Every request under `/v1/`: admitted while there is room, watched while it goes on, answered by the gateway.

What is held at once is bounded, in requests and in bytes (`load`); beyond the bound the answer is a 503 that says when
to come again. While an exchange goes on its client is watched (`watch`).
"""

from __future__ import annotations

import asyncio

from trimtab.exchange.gateway import Gateway
from trimtab.exchange.incoming import STOPPING, Incoming
from trimtab.server.asgi import RequestBody, Response, incoming_of
from trimtab.server.load import Load
from trimtab.server.watch import Message, Receive, Send, Watches

_BODILESS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})


class Front:
    """The ASGI application for everything under `/v1/`."""

    def __init__(self, gateway: Gateway, load: Load, max_body_bytes: int) -> None:
        self._gateway, self._load, self._max_body = gateway, load, max_body_bytes
        self._watches = Watches()

    def cut(self) -> None:
        """Give up every exchange that still goes on: their time to finish is over. Their clients are told so."""
        self._watches.cancel(STOPPING)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        incoming = incoming_of(scope)
        body = RequestBody(receive, incoming.fields, self._load, self._max_body)
        body.complete = incoming.method in _BODILESS
        response = Response(send, body)
        if self._load.full:
            await self._gateway.turn_away(incoming, response, self._load.draining)
            return
        self._load.requests += 1
        try:
            await self._watched(incoming, body, response, receive)
        finally:
            self._load.leave()
            body.release()

    async def _watched(self, incoming: Incoming, body: RequestBody, response: Response, receive: Receive) -> None:
        """Run the exchange, and cancel it when the client goes away."""
        exchange = asyncio.current_task()
        assert exchange is not None
        watch = self._watches.begin(exchange, body, receive)
        try:
            await self._gateway.handle(incoming, body, response)
        except asyncio.CancelledError:
            if not watch.gone:
                raise  # the server is stopping, or whoever called us is
            exchange.uncancel()
            if not response.started:
                await self._gateway.tell_gone(incoming, response)
        finally:
            self._watches.end(watch)
