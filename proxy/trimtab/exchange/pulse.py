"""The client's side of an event stream: where the proxy may speak too, between two events and never inside one.

Middleboxes cut a connection on which nothing comes for a minute, and a model may think for longer. So a client that
waits gets a comment after every `every_s` seconds of silence, which every client of event streams ignores.
"""

from __future__ import annotations

import asyncio

from trimtab.exchange.incoming import Downstream
from trimtab.wire.media import BYTE_ORDER_MARK

KEEP_ALIVE = b": keep-alive\n\n"
_BLANK = (b"\n\n", b"\r\n\r\n", b"\r\r")


class Pulse:
    """Writes on to `downstream`, and comments while nothing is written. `every_s`: seconds, 0 for none. End it with
    `stop`, on every way out."""

    def __init__(self, downstream: Downstream, every_s: float) -> None:
        self._down, self._every_s = downstream, every_s
        self.between = True  # what was written so far ends with a whole event
        self.fresh = True  # nothing of the upstream's was written yet
        self._spoke = self._writing = False
        self._loop = asyncio.get_running_loop()
        self._wrote_at = self._loop.time()
        self._beat: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(every_s, self._tick) if every_s else None

    async def write(self, chunk: bytes) -> None:
        """Bytes of the upstream's."""
        if self.fresh:
            self.fresh = False
            # A byte order mark counts only at the very beginning; behind a comment it would spoil the first event.
            chunk = chunk.removeprefix(BYTE_ORDER_MARK) if self._spoke else chunk
        if self._beat is not None:
            await self._beat
            self._beat = None
        self._writing = True
        await self._down.write(chunk)
        self._writing = False
        self._wrote_at = self._loop.time()
        self.between = chunk.endswith(_BLANK)

    async def say(self, comment: bytes) -> None:
        """A whole comment of ours. Only while `between`."""
        self._spoke = True
        await self._down.write(comment)

    async def stop(self) -> None:
        """No more comments; one that is on its way arrives."""
        if self._timer is not None:
            self._timer.cancel()
        if self._beat is not None:
            beat, self._beat = self._beat, None
            await beat

    def _tick(self) -> None:
        quiet = self._loop.time() - self._wrote_at
        if quiet >= self._every_s * 0.99 and self.between and not self._writing and self._beat is None:
            self._beat = asyncio.create_task(self._beaten())
            quiet = 0.0
        self._timer = self._loop.call_later(max(self._every_s - quiet, self._every_s / 4), self._tick)

    async def _beaten(self) -> None:
        await self.say(KEEP_ALIVE)
        self._wrote_at = self._loop.time()
        self._beat = None
