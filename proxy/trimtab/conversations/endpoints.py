"""What the endpoints of stored conversations do: `/v1/conversations`, and `/v1/responses/{id}` of responses held here.

Each method belongs to one tenant and answers with an object of the API. All raise NotStored for an id that the tenant
does not have, StoreUnavailable, and Conflict where a request of the same conversation changed it meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from secrets import token_hex
from typing import Any

import msgspec
from msgspec import Raw

from trimtab.conversations import objects
from trimtab.conversations.conversations import Conversations, log_name
from trimtab.conversations.entries import Entry, Header, Held, Record
from trimtab.conversations.histories import History
from trimtab.conversations.objects import Page
from trimtab.conversations.responses import id_of
from trimtab.errors import Conflict, InvalidRequest, NotStored

Object = dict[str, Any]


class _Created(msgspec.Struct):
    metadata: Any = None
    items: list[Raw] | None = None


class Endpoints:
    """The endpoints for one tenant, which is recognized by `identity`."""

    def __init__(self, conversations: Conversations, identity: bytes) -> None:
        self._all, self._histories = conversations, conversations.histories
        self._tenant = conversations.tenant(identity)

    # -- responses -------------------------------------------------------------------------------------------

    async def response(self, name: str) -> Object:
        """`GET /v1/responses/{id}`."""
        record, history = await self._response(name)
        return objects.response(record, [item for item in history.turn(record.version) if item.made])

    async def delete_response(self, name: str) -> Object:
        """`DELETE /v1/responses/{id}`. Its items are deleted too, unless something follows them."""
        record, history = await self._response(name)
        await self._histories.forget(self._tenant, name)
        if history.version == record.version and not record.name.startswith("c:"):
            await self._histories.replace(self._tenant, history, record.version - 1, Entry())
        return {"id": name, "object": "response", "deleted": True}

    async def cancel_response(self, name: str) -> Object:
        """`POST /v1/responses/{id}/cancel`: what is stored here has ended. Raises InvalidRequest."""
        await self._response(name)
        raise InvalidRequest("Cannot cancel a synchronous response: only one that was asked for with background: true.")

    async def input_items(self, name: str, page: Page) -> Object:
        """`GET /v1/responses/{id}/input_items`: everything that the model got."""
        record, history = await self._response(name)
        turn = history.turn(record.version)
        before = history.until(record.version)[: -len(turn) or None]
        return objects.listing([*before, *(item for item in turn if not item.made)], page)

    async def _response(self, name: str) -> tuple[Record, History]:
        record = (await self._histories.find(self._tenant, [name])).get(name)
        history = await self._histories.load(self._tenant, record.name) if record and record.response else None
        if record is None or history is None or history.version < record.version:
            raise NotStored(f"Response with id '{name[:80]}' not found.")
        return record, history

    # -- conversations ---------------------------------------------------------------------------------------

    async def create(self, body: bytes) -> Object:
        """`POST /v1/conversations`."""
        created = _read(body or b"{}", _Created)
        items = _items(created.items or [])
        self._all.check_bounds(None, items)
        name = f"conv_{token_hex(16)}"
        metadata = objects.metadata_of(created.metadata)
        header = Header("responses", int(self._histories.clock()), metadata)
        await self._histories.make(self._tenant, log_name(name), header, items)
        return objects.conversation(name, header)

    async def conversation(self, name: str) -> Object:
        """`GET /v1/conversations/{id}`."""
        return objects.conversation(name, (await self._all.named(self._tenant, name)).header)

    async def update(self, name: str, body: bytes) -> Object:
        """`POST /v1/conversations/{id}`: other metadata."""
        metadata = objects.metadata_of(_read(body, _Created).metadata)
        async with self._all.lock(self._tenant, name):
            history = await self._all.named(self._tenant, name)
            header = msgspec.structs.replace(history.header, metadata=metadata)
            await self._replace(history, 0, Entry(header=header))
        return objects.conversation(name, header)

    async def delete(self, name: str) -> Object:
        """`DELETE /v1/conversations/{id}`, with all its items."""
        if not await self._histories.remove(self._tenant, log_name(name)):
            raise NotStored(f"Conversation with id '{name[:80]}' not found.")
        return {"id": name, "object": "conversation.deleted", "deleted": True}

    async def items(self, name: str, page: Page) -> Object:
        """`GET /v1/conversations/{id}/items`."""
        return objects.listing((await self._all.named(self._tenant, name)).items, page)

    async def add_items(self, name: str, body: bytes) -> Object:
        """`POST /v1/conversations/{id}/items`."""
        items = _items(_read(body, _Created).items or [])
        async with self._all.lock(self._tenant, name):
            history = await self._all.named(self._tenant, name)
            if history.header.dialect != "responses":
                raise InvalidRequest("This conversation holds messages of a chat. Items cannot be added to it.")
            self._all.check_bounds(history, items)
            if items and await self._histories.append(self._tenant, history, items) is None:
                raise _changed()
        return objects.listed(items)

    async def item(self, name: str, item_id: str) -> Object:
        """`GET /v1/conversations/{id}/items/{item_id}`."""
        history = await self._all.named(self._tenant, name)
        return objects.shown(history.items[_place(history, item_id)])

    async def delete_item(self, name: str, item_id: str) -> Object:
        """`DELETE /v1/conversations/{id}/items/{item_id}`."""
        async with self._all.lock(self._tenant, name):
            history = await self._all.named(self._tenant, name)
            at = _place(history, item_id)
            version = next(version for version, end in enumerate(history.ends, 1) if at < end)
            left = [item for item in history.turn(version) if item.id != item_id]
            await self._replace(history, version - 1, self._histories.entry_of(left))
        return objects.conversation(name, history.header)

    async def _replace(self, history: History, position: int, entry: Entry) -> None:
        if not await self._histories.replace(self._tenant, history, position, entry):
            raise _changed()


def _place(history: History, item_id: str) -> int:
    """The place of an item. Raises NotStored."""
    found = next((at for at, item in enumerate(history.items) if item.id == item_id), None)
    if found is None:
        raise NotStored(f"Item with id '{item_id[:80]}' not found in this conversation.")
    return found


def _items(raws: Sequence[Raw]) -> list[Held]:
    return [Held(id_of(bytes(raw)), bytes(raw)) for raw in raws]


def _read(body: bytes, kind: type[_Created]) -> _Created:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest("Invalid body. Send a JSON object with `items` (a list) or `metadata`.") from error


def _changed() -> Conflict:
    return Conflict("This conversation was changed meanwhile. Send the request again.")
