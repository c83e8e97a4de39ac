"""How long an answer may say nothing, in the middle of its body.

aiohttp can watch over that itself, and does until the head has come. In a stream it makes a timer at every chunk only
to throw it away at the next, a tenth of what relaying one costs; the timer here is made once, looks when it goes off
how long the silence really is, and is set again for the rest.
"""

from __future__ import annotations

import asyncio

import aiohttp


class Silence:
    """Watches over the body of one answer. `begins` and `ends` frame each wait for the next bytes: a client that
    reads slowly is no silence of the upstream's."""

    __slots__ = ("_content", "_loop", "_seconds", "_since", "_timer")

    def __init__(self, response: aiohttp.ClientResponse, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._content, self._seconds = response.content, seconds
        self._since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        connection = response.connection
        if connection is not None and connection.protocol is not None:
            connection.protocol.read_timeout = None  # set again with the connection's next request
            self._timer = self._loop.call_later(seconds, self._look)

    def begins(self) -> None:
        self._since = self._loop.time()

    def ends(self) -> None:
        self._since = None

    def close(self) -> None:
        """The answer is over."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        now = self._loop.time()
        left = self._seconds - (now - (self._since or now))
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self._content.set_exception(aiohttp.SocketTimeoutError("silent for too long"))
