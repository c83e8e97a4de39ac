"""Whether the client is still there while its answer is made.

When it goes away its exchange is cancelled, before the first byte of an answer as after it, and with it the
upstream's call: a model stops generating for nobody. Watching waits for the server's word in a task of its own, which
costs as much as a quick answer in all, so it begins only with answers that take `AFTER_S`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

AFTER_S = 0.1  # seconds; few models answer faster, and a client that leaves earlier is noticed then


class Watch:
    """Watches for one exchange, from its making until `end`. `gone`: the client left and the exchange was cancelled.

    Until the body is `complete` the exchange itself listens to the client, and hears of its leaving.
    """

    def __init__(
        self, exchange: asyncio.Task[Any], complete: asyncio.Event, receive: Callable[[], Awaitable[dict[str, Any]]]
    ) -> None:
        self._exchange, self._complete, self._receive = exchange, complete, receive
        self.gone = False
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(AFTER_S, self._begin)

    def end(self) -> None:
        """The answer is complete, or given up."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        await self._complete.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        self._exchange.cancel()
