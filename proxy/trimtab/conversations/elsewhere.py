"""A response that the upstream makes and holds itself: one in the background, or one that continues such a response.

Nothing of it is stored here but its id, under the tenant's key, with the name of the upstream that holds it. So it can
be asked for and cancelled where it is, by the tenant who asked for it, also where all tenants share the proxy's key.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from trimtab.conversations.answer import decoded
from trimtab.conversations.entries import Record
from trimtab.conversations.histories import Histories
from trimtab.errors import StoreUnavailable
from trimtab.store.sealed import Tenant

_PREFIX = "u:"  # of the name in a record that leads to an upstream and to no log


class _Response(msgspec.Struct, frozen=True):
    id: str = ""


class _Event(msgspec.Struct, frozen=True):
    response: _Response = _Response()


class _Asked(msgspec.Struct, frozen=True):
    background: bool | None = None


def in_background(body: bytes) -> bool:
    """Whether a Responses request asks to be answered in the background. Never raises."""
    asked = decoded(body, _Asked) if b"background" in body else None
    return isinstance(asked, _Asked) and asked.background is True


def held_by(record: Record) -> str | None:
    """The upstream that holds the response of this record; None where it is stored here."""
    return record.name.removeprefix(_PREFIX) if record.name.startswith(_PREFIX) else None


class Elsewhere:
    """One such response, in the place of a `Turn`. `upstream` is the name of the one that it is asked of. No method
    raises: an answer that has been paid for is not lost because its id could not be stored."""

    def __init__(self, histories: Histories, tenant: Tenant) -> None:
        self._histories, self._tenant = histories, tenant
        self.upstream = self._id = ""
        self._kept = False

    def begin(self) -> None:
        """An answer begins; one that began before is forgotten."""
        self._id = ""

    def read(self, body: bytes) -> None:
        """Read a whole answer."""
        response = decoded(body, _Response)
        self._id = response.id if isinstance(response, _Response) else ""

    def feed(self, data: bytes) -> bool:
        """Read the data of one event. True once the id is known: it is stored before the client has it."""
        if not self._id:
            event = decoded(data, _Event)
            self._id = event.response.id if isinstance(event, _Event) else ""
        return bool(self._id)

    async def keep(self) -> None:
        """Store the id, once."""
        if self._id and not self._kept:
            self._kept = True
            record = Record(_PREFIX + self.upstream, 0, b"")
            with suppress(StoreUnavailable):
                await self._histories.remember(self._tenant, {self._id: record})

    async def keep_what_came(self) -> None:
        """As `keep`."""
        await self.keep()
