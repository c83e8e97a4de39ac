"""Notices when a client leaves while its answer is made, or stops sending its request.

When it leaves, its exchange is cancelled, before the first byte of an answer or after it, and with it the upstream's
call, so that no model generates for a client that is gone. Listening for the disconnect is a task of its own, which
costs as much as a quick answer, so it begins only for answers that take longer than `EVERY_S`. One timer checks all
exchanges in turn: a timer each would cost every request what only slow ones need.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

EVERY_S = 0.1  # seconds; few models answer faster, and a client that leaves earlier is noticed then
_RESTS_AFTER = 10  # checks without an exchange


class Upload(Protocol):
    """The body of a request. Until it is `complete` the exchange itself listens to the client, and learns of a
    disconnect."""

    complete: bool

    def check_pause(self, now: float) -> None:
        """Called now and then with the time in seconds."""


class Watch:
    """The watch over one exchange. `gone`: the client left and the exchange was cancelled."""

    def __init__(self, exchange: asyncio.Task[Any], body: Upload, receive: Receive) -> None:
        self.exchange, self._body, self._receive = exchange, body, receive
        self.gone = self._seen = False
        self._task: asyncio.Task[None] | None = None

    def check(self, now: float) -> None:
        """One turn of the timer; `now` in seconds."""
        if not self._body.complete:
            self._body.check_pause(now)
        elif self._seen and self._task is None:
            self._task = asyncio.create_task(self._listen())
        self._seen = True

    def end(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        self.exchange.cancel()


class Watches:
    """The watches over all exchanges in flight. The timer starts with the first and rests when there are none."""

    def __init__(self) -> None:
        self._watches: set[Watch] = set()
        self._turns, self._idle = False, 0

    def begin(self, exchange: asyncio.Task[Any], body: Upload, receive: Receive) -> Watch:
        """Watch over an exchange."""
        watch = Watch(exchange, body, receive)
        self._watches.add(watch)
        if not self._turns:
            self._turns, self._idle = True, 0
            asyncio.get_running_loop().call_later(EVERY_S, self._turn)
        return watch

    def end(self, watch: Watch) -> None:
        """The exchange is over."""
        self._watches.discard(watch)
        watch.end()

    def cancel(self, why: str) -> None:
        """Cancel every exchange, with `why` as the argument of CancelledError."""
        for watch in self._watches:
            watch.exchange.cancel(why)

    def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        self._idle = 0 if self._watches else self._idle + 1
        self._turns = self._idle < _RESTS_AFTER
        if self._turns:
            loop.call_later(EVERY_S, self._turn)
        for watch in self._watches:
            watch.check(loop.time())
