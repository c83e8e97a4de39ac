"""The newest exchanges, kept in memory for the pages: a bounded ring that every exchange is appended to at its end.

Appending is all that a request pays for. What is kept of it are its record, packed, and references to the plan and to
the views of its messages, which the planner made anyway: numbers and names. The bodies are kept only where `[ui] text`
is on, for fewer requests, and never on disk.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from hashlib import blake2b
from time import time

import msgspec

from trimtab.context.read.views import View
from trimtab.exchange.decide import Shaping
from trimtab.exchange.notes import Notes
from trimtab.telemetry import Exchange, SummaryRun
from trimtab.ui.figures import Kind, Sketch, by_kind, sketch
from trimtab.ui.settings import UiSettings

# Messages that all sketches refer to. If no two requests shared one, their views and edits would take 90 MB.
MOST_MESSAGES = 200_000
_RUNS = 20  # calls of the summary model
_MB = 1 << 20

# A record is kept as one piece of bytes. As an object it is a dozen objects, and every request would let go of those of
# an exchange long ago, which are in no cache of the processor any more. They are packed together: code that runs again
# at once is faster.
_TOGETHER = 32
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Exchange).decode


class Bodies(msgspec.Struct, frozen=True):
    """One request as it was received, as it was sent, and what was decided. `in_gap` is the summary's text."""

    received: bytes
    sent: bytes
    shaping: Shaping
    in_gap: str | None

    @property
    def size(self) -> int:
        """Bytes; a body that was sent as received counts once."""
        return len(self.received) + (0 if self.sent is self.received else len(self.sent))


class Kept(msgspec.Struct, gc=False):
    """One exchange. `number` counts all exchanges of the process, from 1; `ended_at` is in seconds of Unix time.

    `begins` is a digest of the first question and `tenant` one of the tenant. Later requests than this one take
    `bodies` and `sketch` away again, where they need the room.
    """

    number: int
    ended_at: float
    record: bytes | Exchange  # of the exchange, packed after a while
    begins: bytes = b""
    tenant: bytes = b""
    messages: int = 0
    sketch: Sketch | None = None
    bodies: Bodies | None = None
    _kinds: dict[Kind, int] | None = None

    @property
    def exchange(self) -> Exchange:
        """The record of the exchange."""
        record = self.record
        return _unpack(record) if isinstance(record, bytes) else record

    @property
    def conversation(self) -> str:
        """The name of the conversation, new in every process: the same for requests of one tenant that begin with the
        same question. "" where nothing was planned."""
        return blake2b(self.begins + self.tenant, digest_size=6).hexdigest() if self.begins else ""

    @property
    def kinds(self) -> dict[Kind, int] | None:
        """Tokens sent by kind; None where nothing was planned, or nobody looked in time."""
        sketch = self.sketch
        if self._kinds is None and sketch is not None:
            self._kinds = by_kind(sketch)
        return self._kinds


class Ring:
    """The newest exchanges of one process. `clock` gives Unix time in seconds. One thread adds; others may read."""

    def __init__(self, settings: UiSettings, clock: Callable[[], float] = time) -> None:
        self._settings, self._clock = settings, clock
        self._kept: deque[Kept] = deque(maxlen=settings.keep)
        self._unpacked: list[Kept] = []
        self._sketched: deque[Kept] = deque()
        self._texts: deque[Kept] = deque()
        self._views = self._bytes = 0
        self.runs: deque[tuple[float, SummaryRun]] = deque(maxlen=_RUNS)
        self.newest = 0  # number of the newest exchange
        self.keeps_text = settings.text  # whether bodies are kept
        self._added: asyncio.Event | None = None  # somebody waits for the next exchange

    def add(self, exchange: Exchange, notes: Notes) -> None:
        """Keep one exchange that has ended."""
        self.newest += 1
        kept = Kept(self.newest, self._clock(), exchange)
        self._kept.append(kept)
        self._unpacked.append(kept)
        if len(self._unpacked) >= _TOGETHER:
            self._pack_all()
        shaping = notes.shaping
        if shaping is not None:
            kept.tenant = notes.tenant
            self._keep_plan(kept, shaping)
            if self._settings.text and notes.body is not None:
                self._keep_bodies(kept, Bodies(shaping.request.body, notes.body, shaping, notes.gathered.text))
        if self._added is not None:
            self._added.set()

    def _pack_all(self) -> None:
        for kept in self._unpacked:
            kept.record = _pack(kept.record)
        self._unpacked.clear()

    def _keep_plan(self, kept: Kept, shaping: Shaping) -> None:
        views = shaping.history.views
        kept.messages, kept.begins = len(views), _first_question(views)
        kept.sketch = sketch(shaping)
        self._sketched.append(kept)
        self._views += kept.messages
        while len(self._sketched) > self._settings.keep or (self._views > MOST_MESSAGES and len(self._sketched) > 1):
            oldest = self._sketched.popleft()
            self._views -= oldest.messages
            oldest.sketch = None

    def _keep_bodies(self, kept: Kept, bodies: Bodies) -> None:
        kept.bodies = bodies
        self._texts.append(kept)
        self._bytes += bodies.size
        while len(self._texts) > self._settings.keep_text or self._bytes > self._settings.text_mb * _MB:
            oldest = self._texts.popleft()
            if oldest.bodies is not None:
                self._bytes -= oldest.bodies.size
                oldest.bodies = None

    def add_run(self, run: SummaryRun) -> None:
        """Keep one call of the summary model."""
        self.runs.append((self._clock(), run))

    def after(self, number: int) -> list[Kept]:
        """The kept exchanges with a higher number, oldest first."""
        oldest = self.newest - len(self._kept) + 1
        skipped = max(0, number + 1 - oldest)
        return [*self._kept][skipped:]

    def find(self, number: int) -> Kept | None:
        """The exchange of that number, if it is still kept."""
        found = self.after(number - 1)
        return found[0] if found and found[0].number == number else None

    async def wait(self, seconds: float) -> None:
        """Return once an exchange was added, or after that many seconds."""
        if self._added is None or self._added.is_set():
            self._added = asyncio.Event()
        try:
            await asyncio.wait_for(self._added.wait(), seconds)
        except TimeoutError:
            return

    async def follow(self, number: int, seconds: float) -> AsyncIterator[list[Kept]]:
        """The exchanges after `number` as they come; an empty list after that many seconds without any. A number that
        another process gave, and this one has not reached, counts as the newest."""
        number = min(number, self.newest)
        while True:
            found = self.after(number)
            if found:
                number = found[-1].number
            yield found
            if self.newest <= number:
                await self.wait(seconds)


def _first_question(views: Sequence[View]) -> bytes:
    """The digest of the first user message, else of the first message."""
    for view in views:
        if view.role == "user":
            return view.digest
    return views[0].digest if views else b""
