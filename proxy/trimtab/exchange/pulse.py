"""The client's side of an event stream, where the proxy adds comments between two events and never inside one.

Middleboxes cut a connection that is silent for a minute, and a model may think for longer. So a waiting client gets a
comment after every `every_s` seconds of silence; clients of event streams ignore comments.
"""

from __future__ import annotations

import asyncio

from trimtab.exchange.incoming import Downstream, Headers
from trimtab.wire.media import BYTE_ORDER_MARK, are_comments

KEEP_ALIVE = b": keep-alive\n\n"
_BLANK = (b"\n\n", b"\r\n\r\n", b"\r\r")


class Pulse:
    """Writes to `downstream`, and adds comments while nothing is written. `every_s`: seconds of silence, 0 for no
    comments. `head`: headers with which the first comment begins the stream, where it has not begun. `commented`: there
    were comments before. Call `stop` at the end, whatever happened."""

    def __init__(self, downstream: Downstream, every_s: float, head: Headers = (), *, commented: bool = False) -> None:
        self._down, self._every_s, self._head = downstream, every_s, head
        self.fresh = True  # nothing of the upstream's has been written but comments
        self._commented, self._writing, self._last = commented, False, b""
        self._loop = asyncio.get_running_loop()
        self._wrote_at = self._loop.time()
        self._beat: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(every_s, self._tick) if every_s else None

    async def write(self, chunk: bytes) -> None:
        """Write bytes of the upstream's."""
        if self.fresh:
            self.fresh = are_comments(chunk)
            # A byte order mark is only allowed at the very beginning; after a comment it would spoil the first event.
            chunk = chunk.removeprefix(BYTE_ORDER_MARK) if self._commented else chunk
        if self._beat is not None:
            await self._beat
            self._beat = None
        self._writing, self._last = True, chunk
        await self._down.write(chunk)
        self._writing, self._wrote_at = False, self._loop.time()

    @property
    def between(self) -> bool:
        """True where all that was written ends with a whole event."""
        return not self._last or self._last.endswith(_BLANK)

    async def comment(self, comment: bytes) -> None:
        """Write a whole comment of ours. Only while `between`."""
        self._commented = True
        if not self._down.started:
            await self._down.start(200, self._head)
        await self._down.write(comment)

    async def stop(self) -> None:
        """End the comments; one that has begun is written."""
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
        await self.comment(KEEP_ALIVE)
        self._wrote_at = self._loop.time()
        self._beat = None
