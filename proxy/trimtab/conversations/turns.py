"""One exchange's part in a stored conversation: the history before its request, and the turn that is stored at its end.

A turn is one entry, appended before the last byte of the answer goes out. A named conversation belongs to one request
at a time: a second one gets a 409, as at OpenAI, and the lock of a process that was killed ends by itself. Responses
that continue the same earlier response do not wait for each other: each goes on in a log of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from secrets import token_hex
from typing import Final

from trimtab.conversations.answer import Answer, Collector
from trimtab.conversations.archive import Archive
from trimtab.conversations.chat import ChatCollector
from trimtab.conversations.entries import DialectName, Header, Held, Record
from trimtab.conversations.histories import Histories, History, Report
from trimtab.conversations.responses import ResponsesCollector, id_of
from trimtab.errors import Conflict, StoreUnavailable
from trimtab.store.keys import lock_key
from trimtab.store.sealed import Tenant

LOCK_S: Final = 10.0  # how long a lock outlives a process that was killed
_RENEW_S: Final = LOCK_S / 3

_COLLECTORS: Final[dict[DialectName, type[ChatCollector] | type[ResponsesCollector]]] = {
    "chat": ChatCollector,
    "responses": ResponsesCollector,
}


def new_chain() -> str:
    """The name of a new log for responses that follow each other."""
    return "r:" + token_hex(16)


class Lock:
    """The right to add to the log under `key`, renewed until it is released."""

    def __init__(self, archive: Archive, key: str, report: Report) -> None:
        self._report = report
        self._archive, self._key, self._token = archive, lock_key(key), token_hex(16)
        self._renewing: asyncio.Task[None] | None = None

    async def take(self) -> None:
        """Raises Conflict while another request has it, and StoreUnavailable."""
        if not await self._archive.lock(self._key, self._token, LOCK_S):
            self._report("conflict", 0, 0.0)
            raise Conflict(
                "Another request of this conversation is under way. Send this one again when that one has ended."
            )
        self._renewing = asyncio.create_task(self._renew())

    async def release(self) -> None:
        """Free it. Never raises."""
        if self._renewing is not None:
            self._renewing.cancel()
            with suppress(StoreUnavailable):  # then it ends by itself
                await self._archive.unlock(self._key, self._token)

    async def __aenter__(self) -> None:
        await self.take()

    async def __aexit__(self, *_: object) -> None:
        await self.release()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_S)
            with suppress(StoreUnavailable):
                await self._archive.lock(self._key, self._token, LOCK_S)


class Turn:
    """One request and its answer. `id` is the conversation's, empty for a chain of responses. `history` is what it
    continues, `before` are the items of it, up to where it does, `new` those of the request. `writes`: the turn is to
    be stored, and is once it is `stored`; `relied_on`: the client relies on that, so it is an error where it fails.
    `prepare` returns the stateless request and sets `new`."""

    def __init__(self, histories: Histories, tenant: Tenant, history: History, at: int) -> None:
        self._histories, self._tenant, self._at = histories, tenant, at
        self.history = history
        self.before = history.until(at)
        self.id = ""
        self.new: list[Held] = []
        self.writes = self.relied_on = True
        self.lock: Lock | None = None
        self.prepare: Callable[[], bytes] = bytes
        self._kept = self.stored = False
        self.begin()

    def begin(self) -> None:
        """An answer begins; one that began before is forgotten."""
        self._collector: Collector = _COLLECTORS[self.history.header.dialect]()

    def read(self, body: bytes) -> None:
        """Read a whole answer."""
        self._collector.read(body)

    def feed(self, data: bytes) -> bool:
        """Read the data of one event. True for the one after which nothing is added."""
        return self._collector.feed(data)

    async def keep(self) -> None:
        """Store the turn with what has come of its answer, once; nothing of one that has not begun. Raises Conflict,
        and StoreUnavailable where the client relies on it."""
        answer = self._collector.answer()
        if self._kept or not self.writes or not (answer.items or answer.whole):
            return
        self._kept = True
        try:
            await asyncio.shield(self._store(answer))
            self.stored = True
        except StoreUnavailable:
            if self.relied_on:
                raise

    async def keep_what_came(self) -> None:
        """As `keep`, of an answer whose client has an error already, or has left; and count an answer of which nothing
        is stored. Never raises."""
        with suppress(StoreUnavailable, Conflict):
            await self.keep()
        if self.writes and not self.stored:
            self._histories.report("unstored", 0, 0.0)

    async def _store(self, answer: Answer) -> None:
        made = [Held(id_of(raw), raw, True, not answer.whole) for raw in answer.items]
        stored = await self._append([*self.new, *made])
        if answer.id:  # of a response; its items can be referred to as well
            records = {item.id: Record(stored.name, stored.version, b"") for item in made}
            records[answer.id] = Record(stored.name, stored.version, answer.response)
            await self._histories.remember(self._tenant, records)

    async def _append(self, items: list[Held]) -> History:
        histories, history = self._histories, self.history
        if history.version == self._at:
            stored = await histories.append(self._tenant, history, items)
            if stored is not None:
                return stored
        if self.id:
            raise Conflict("This conversation was changed while the answer was made, and the answer is not stored.")
        header = Header(history.header.dialect, int(histories.clock()), parent=history.name, at=self._at)
        forked = await histories.make(self._tenant, new_chain(), header, items)
        assert forked is not None
        return forked

    async def release(self) -> None:
        """Let the next request of the conversation go on. Never raises."""
        if self.lock is not None:
            await asyncio.shield(self.lock.release())
