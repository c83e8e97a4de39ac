"""Whether the client is still there while its answer is made, and still sends while its request comes.

When it goes away its exchange is cancelled, before the first byte of an answer as after it, and with it the
upstream's call: a model stops generating for nobody. Listening for the server's word is a task of its own, which costs
as much as a quick answer in all, so it begins only with answers that take longer than `EVERY_S`. One timer looks at
all exchanges in turn: one for each would cost every request what only slow ones need.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

EVERY_S = 0.1  # seconds; few models answer faster, and a client that leaves earlier is noticed then
_RESTS_AFTER = 10  # turns without any exchange


class Upload(Protocol):
    """The body of a request: until it is `complete` the exchange itself listens to the client, and hears of its
    leaving; `look` is called with the time in seconds."""

    complete: bool

    def look(self, now: float) -> None: ...


class Watch:
    """Watches for one exchange. `gone`: the client left and the exchange was cancelled."""

    def __init__(self, exchange: asyncio.Task[Any], body: Upload, receive: Receive) -> None:
        self.exchange, self._body, self._receive = exchange, body, receive
        self.gone = self._seen = False
        self._task: asyncio.Task[None] | None = None

    def look(self, now: float) -> None:
        """One turn."""
        if not self._body.complete:
            self._body.look(now)
        elif self._seen and self._task is None:
            self._task = asyncio.create_task(self._listen())
        self._seen = True

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        self.exchange.cancel()


class Watches:
    """All exchanges that go on. The timer begins with the first and rests when there are none for a while."""

    def __init__(self) -> None:
        self._watches: set[Watch] = set()
        self._turns, self._idle = False, 0

    def begin(self, exchange: asyncio.Task[Any], body: Upload, receive: Receive) -> Watch:
        watch = Watch(exchange, body, receive)
        self._watches.add(watch)
        if not self._turns:
            self._turns, self._idle = True, 0
            asyncio.get_running_loop().call_later(EVERY_S, self._turn)
        return watch

    def end(self, watch: Watch) -> None:
        """The answer is complete, or given up."""
        self._watches.discard(watch)
        watch.end()

    def cancel(self, why: str) -> None:
        """Give up every exchange."""
        for watch in self._watches:
            watch.exchange.cancel(why)

    def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        self._idle = 0 if self._watches else self._idle + 1
        self._turns = self._idle < _RESTS_AFTER
        if self._turns:
            loop.call_later(EVERY_S, self._turn)
        for watch in self._watches:
            watch.look(loop.time())
