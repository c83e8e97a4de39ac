"""Every request under `/v1/`: admitted while there is room, watched while it goes on, and handed to the gateway.

What is held at once is bounded, in requests and in bytes (`load`); beyond the bound the answer is a 503 that says when
to come again. While an exchange goes on its client is watched (`watch`). An endpoint of our own under `/v1/` is
admitted and watched like the others, and answered by `ours`, unless what it asks for is held by an upstream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from litestar.types import ASGIApp

from trimtab.exchange.gateway import Gateway
from trimtab.exchange.incoming import BODILESS, PLAN, Incoming
from trimtab.server.asgi import RequestBody, Response, incoming_of
from trimtab.server.load import Load
from trimtab.server.watch import Message, Receive, Send, Watches


class Front:
    """The ASGI application for everything under `/v1/`. `ours` answers the plan endpoint, and what `serves` is true
    for by method and path."""

    def __init__(
        self,
        gateway: Gateway,
        load: Load,
        watches: Watches,
        max_body_bytes: int,
        ours: ASGIApp,
        serves: Callable[[str, str], bool] | None = None,
    ) -> None:
        self._gateway, self._load, self._watches = gateway, load, watches
        self._max_body, self._ours, self._serves = max_body_bytes, ours, serves

    def __call__(self, scope: Message, receive: Receive, send: Send) -> Awaitable[None]:
        """Answer one request, or turn it away."""
        incoming = incoming_of(scope)
        body = RequestBody(receive, incoming.fields, self._load, self._max_body)
        body.complete = incoming.method in BODILESS
        response = Response(send, body)
        if self._load.full:
            return self._turned_away(incoming, response)
        return self._answered(scope, incoming, body, response, receive)

    async def _turned_away(self, incoming: Incoming, response: Response) -> None:
        await self._gateway.turn_away(incoming, response, draining=self._load.draining)
        await response.linger()

    async def _answered(
        self, scope: Message, incoming: Incoming, body: RequestBody, response: Response, receive: Receive
    ) -> None:
        """Run the exchange, and cancel it when the client goes away."""
        exchange = asyncio.current_task()
        assert exchange is not None
        self._load.requests += 1
        try:
            watch = self._watches.begin(exchange, body, receive)
            try:
                endpoint, serves, holder = incoming.endpoint, self._serves, None
                ours = serves is not None and serves(incoming.method, endpoint)
                if ours:
                    holder = await self._gateway.held_by(incoming)
                if endpoint == PLAN or (ours and holder is None):
                    await self._ours(_plain(scope, incoming, body), receive, response.send)  # type: ignore[arg-type]
                else:
                    await self._gateway.handle(incoming, body, response, holder or "")
            except asyncio.CancelledError:
                if not watch.gone:
                    raise  # the server is stopping, or whoever called us is
                exchange.uncancel()
                if not response.started:
                    await self._gateway.answer_half_closed(incoming, response)
            finally:
                self._watches.end(watch)
            if response.lingers:
                await response.linger()
        finally:
            self._load.leave()
            body.release()


def _plain(scope: Message, incoming: Incoming, body: RequestBody) -> Message:
    """The scope with the path in its plain spelling, and the request in its state, as handlers take it."""
    path = incoming.endpoint
    return {**scope, "path": path, "raw_path": path.encode(), "state": {"incoming": incoming, "body": body}}
