"""From a request to its turn: which stored history it continues, under the tenant's own key.

An id of another tenant is an id that is not stored. What the client names must be there; a chat may name what is to be
made.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from secrets import token_hex

from trimtab.conversations import chat, responses
from trimtab.conversations.archive import Archive
from trimtab.conversations.elsewhere import Elsewhere, held_by
from trimtab.conversations.entries import DialectName, Header, Held
from trimtab.conversations.files import Files
from trimtab.conversations.histories import Histories, History, size_of
from trimtab.conversations.settings import ConversationsSettings
from trimtab.conversations.turns import Lock, Turn, new_chain
from trimtab.errors import BodyTooLarge, InvalidRequest, NotStored
from trimtab.store.keys import log_key
from trimtab.store.sealed import Keyring, Tenant

_ID = re.compile(r"[A-Za-z0-9][\w.:-]{0,127}", re.ASCII)
_SHOWN = 80  # characters of an unknown id in an error


def log_name(conversation: str) -> str:
    """The name of the log of a conversation."""
    return "c:" + conversation


class Conversations:
    """All stored conversations. One for the process."""

    def __init__(self, settings: ConversationsSettings, archive: Archive, histories: Histories) -> None:
        self._settings, self._archive, self.histories = settings, archive, histories
        self.files = Files(archive, settings, histories.clock)
        self.store_by_default = settings.store_by_default
        self._keyring = Keyring(settings.secret, b"conversations/v1")

    def tenant(self, identity: bytes) -> Tenant:
        """The tenant that is recognized by this identity."""
        return self._keyring.tenant(identity)

    async def response(self, request: responses.Asked, identity: bytes, *, reads: bool = False) -> Turn | Elsewhere:
        """The turn of a Responses request; one that continues what an upstream holds belongs there. `reads`: nothing is
        to be stored. Raises NotStored, Conflict, InvalidRequest, and StoreUnavailable where it names a history."""
        tenant, writes = self.tenant(identity), request.stores and not reads
        whole = responses.resolved(request, await self._referred(tenant, responses.references(request)))
        if request.conversation:
            turn = await self._turn(tenant, request.conversation, "responses", writes=writes)
        elif request.previous:
            found = await self._after_response(tenant, request.previous)
            if isinstance(found, Elsewhere):
                return found
            turn = found
        else:
            turn = Turn(self.histories, tenant, self._new(new_chain(), "responses"), 0)
        turn.writes, turn.relied_on = writes, request.relies

        def prepare() -> bytes:
            turn.new = [Held(responses.id_of(raw), raw) for raw in whole.items]
            self.check_bounds(turn.history, turn.new)
            return responses.stateless(whole, turn.before)

        turn.prepare = prepare
        return turn

    def elsewhere(self, identity: bytes) -> Elsewhere:
        """A response that its upstream will hold."""
        return Elsewhere(self.histories, self.tenant(identity))

    async def place(self, response_id: str, identity: bytes) -> str | None:
        """Where the tenant's response is: "" here, or the name of the upstream that holds it; None where that is not
        known. Raises StoreUnavailable."""
        record = (await self.histories.find(self.tenant(identity), [response_id])).get(response_id)
        return None if record is None else held_by(record) or ""

    async def chat(self, request: chat.Asked, identity: bytes, name: str, *, reads: bool = False) -> Turn:
        """The turn of a chat completion in the conversation `name` ("new" or nothing: one that is made). `reads`:
        nothing is to be stored, and the conversation must be there. Raises as `response`."""
        known = name not in ("", "new")
        if known and not _ID.fullmatch(name):
            raise InvalidRequest(
                "Invalid id in x-trimtab-conversation. Use 1 to 128 letters, digits and the characters _ . : -",
                param="x-trimtab-conversation",
            )
        name = name if known else f"conv_{token_hex(16)}"
        turn = await self._turn(self.tenant(identity), name, "chat", writes=not reads, made=not reads)
        turn.writes = not reads

        def prepare() -> bytes:
            sent, turn.new = chat.joined(turn.before, request.messages)
            self.check_bounds(turn.history, turn.new)
            return chat.stateless(request, sent)

        turn.prepare = prepare
        return turn

    async def _turn(self, tenant: Tenant, name: str, dialect: DialectName, *, writes: bool, made: bool = False) -> Turn:
        """A turn of a named conversation, locked before it is read if it `writes`; `made`: where there is none, it is
        made."""
        lock = self.lock(tenant, name) if writes else None
        if lock is not None:
            await lock.take()
        turn: Turn | None = None
        try:
            history = await self.named(tenant, name) if not made else await self._known(tenant, name)
            history = history or self._new(log_name(name), dialect)
            if history.header.dialect != dialect:
                raise InvalidRequest(f"This conversation belongs to another API ({history.header.dialect}).")
            turn = Turn(self.histories, tenant, history, history.version)
            turn.id, turn.lock = name, lock
            return turn
        finally:
            if turn is None and lock is not None:
                await lock.release()

    async def _referred(self, tenant: Tenant, ids: Sequence[str]) -> dict[str, bytes]:
        """The items of earlier responses that a request refers to by their ids, as far as they are stored."""
        found: dict[str, bytes] = {}
        for record in set((await self.histories.find(tenant, ids)).values()) if ids else ():
            history = await self.histories.load(tenant, record.name)
            if history is not None and history.version >= record.version:
                found |= {item.id: item.raw for item in history.turn(record.version) if item.id in ids}
        return found

    async def _after_response(self, tenant: Tenant, previous: str) -> Turn | Elsewhere:
        record = (await self.histories.find(tenant, [previous])).get(previous)
        if record is not None and held_by(record) is not None:
            return Elsewhere(self.histories, tenant)
        history = await self.histories.load(tenant, record.name) if record and record.response else None
        if record is None or history is None or history.version < record.version:
            error = NotStored(
                f"Previous response with id '{previous[:_SHOWN]}' not found.", param="previous_response_id"
            )
            error.code = "previous_response_not_found"
            raise error
        return Turn(self.histories, tenant, history, record.version)

    def lock(self, tenant: Tenant, name: str) -> Lock:
        """The right to change a conversation, not yet taken."""
        return Lock(self._archive, log_key(tenant.id, log_name(name)), self.histories.report)

    async def named(self, tenant: Tenant, name: str) -> History:
        """The history of a conversation. Raises NotStored where there is none, and StoreUnavailable."""
        history = await self._known(tenant, name)
        if history is None:
            raise NotStored(f"Conversation with id '{name[:_SHOWN]}' not found.", param="conversation")
        return history

    async def _known(self, tenant: Tenant, name: str) -> History | None:
        return await self.histories.load(tenant, log_name(name))

    def _new(self, name: str, dialect: DialectName) -> History:
        return History(name, Header(dialect, int(self.histories.clock())))

    def check_bounds(self, before: History | None, new: Sequence[Held]) -> None:
        """Raises BodyTooLarge where these are more messages or bytes than one conversation may have."""
        settings, count, size = self._settings, len(new), size_of(new)
        if before is not None:
            count, size = count + len(before.items), size + before.size
        if count > settings.max_messages or size > settings.max_mb << 20:
            raise BodyTooLarge(
                f"This conversation would have {count} messages and {size >> 20} MB. One may have "
                f"{settings.max_messages} and {settings.max_mb} MB: start a new one, or raise max_messages and max_mb "
                "in [conversations]."
            )
