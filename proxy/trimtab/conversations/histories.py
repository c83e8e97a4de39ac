"""Histories as they are loaded from logs and appended to them, for one tenant at a time.

A replica remembers what it has read of a log, by version, in a bounded memory: a load then reads only what is new, in
one call. The first entry of a log is sealed with a random number, so one that was deleted and made again under the same
name is not taken for the one remembered.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec
from cachetools import LRUCache

from trimtab.conversations.archive import Archive, Log
from trimtab.conversations.entries import (
    Entry,
    Header,
    Held,
    Item,
    Record,
    cut,
    digests_of,
    joined,
    open_entry,
    open_record,
    seal_entry,
    seal_record,
)
from trimtab.conversations.settings import ConversationsSettings
from trimtab.errors import NotStored
from trimtab.store.keys import log_key, media_key, response_key
from trimtab.store.sealed import Tenant

_HEAVY = 512 << 10  # bytes of a log that are opened in a thread: more takes milliseconds
_GONE = "A part of this conversation is no longer stored. Start a new conversation."
_ITEM_OVERHEAD = 200  # bytes of one item that is remembered, beside its text

Done = Literal["load", "append", "conflict", "unstored"]
Report = Callable[[Done, int, float], None]
"""Called for each load, append and conflict, with the bytes of text read or written and the seconds it took; and for
each answer of which nothing is stored."""


class History(msgspec.Struct, frozen=True):
    """A log as it was loaded. `ends[n]` is the number of items in its first n + 1 entries, `before` the number of
    items that are its parent's, `size` the bytes of all items; `first` is the first entry as stored."""

    name: str
    header: Header
    version: int = 0
    first: bytes = b""
    items: list[Held] = []
    ends: list[int] = []
    before: int = 0
    size: int = 0
    media: tuple[bytes, ...] = ()

    def until(self, version: int) -> list[Held]:
        """The items up to a version, those of its parent included."""
        return self.items[: self.ends[version - 1]] if version else self.items[: self.before]

    def turn(self, version: int) -> list[Held]:
        """The items of the entry that ends a version."""
        start = self.ends[version - 2] if version > 1 else self.before
        return self.items[start : self.ends[version - 1]]


class Histories:
    """All logs of an archive. `clock` gives seconds since 1970."""

    def __init__(
        self,
        archive: Archive,
        settings: ConversationsSettings,
        report: Report = lambda done, size, seconds: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._archive, self._ttl_s, self._bound = archive, settings.ttl_s, settings.media_kb << 10
        self.report, self.clock = report, clock
        self._known: LRUCache[str, History] = LRUCache(settings.memory_mb << 20, getsizeof=_size)

    async def load(self, tenant: Tenant, name: str) -> History | None:
        """A log; None where the tenant has none of this name. Raises StoreUnavailable, and NotStored where a part of it
        is gone."""
        began = time.perf_counter()
        found = await self._load(tenant, name)
        if found is not None:
            self.report("load", found.size, time.perf_counter() - began)
        return found

    async def _load(self, tenant: Tenant, name: str) -> History | None:
        own = await self._own(tenant, name)
        if own is None or not own.header.parent:
            return own
        parent = await self._load(tenant, own.header.parent)
        if parent is None:
            raise NotStored(_GONE)
        inherited = parent.until(own.header.at)
        before = len(inherited)
        ends, size = [before + end for end in own.ends], own.size + size_of(inherited)
        return msgspec.structs.replace(own, items=inherited + own.items, ends=ends, before=before, size=size)

    async def _own(self, tenant: Tenant, name: str) -> History | None:
        """A log without its parent's items."""
        key = log_key(tenant.id, name)
        known = self._known.get(key)
        log = await self._archive.read(key, known.version if known else 0, self._ttl_s)
        entries = await _opened(tenant, key, log, known.version if known else 0)
        if known and log and (log.first != known.first or any(entry.replaced is not None for entry in entries)):
            known, log = None, await self._archive.read(key, 0, self._ttl_s)
            entries = await _opened(tenant, key, log, 0)
        if log is None:
            self._known.pop(key, None)
            return None
        if known is None:
            header = entries[0].header
            assert header is not None
            known = History(name, header, first=log.first)
        found = await self._extended(tenant, known, entries)
        if entries:
            self._remember(key, found)
        return found

    async def _extended(self, tenant: Tenant, known: History, entries: Sequence[Entry]) -> History:
        """What is known of a log, and the entries that are new. What was cut out is kept as long as the log."""
        if known.media:
            await self._archive.keep([media_key(tenant.id, known.name, d) for d in known.media], self._ttl_s)
        if not entries:
            return known
        digests = digests_of(entries)
        values = await self._media(tenant, known.name, digests)
        items, ends = list(known.items), list(known.ends)
        for entry in entries:
            items += [joined(item, values) for item in entry.items]
            ends.append(len(items))
        version, media = known.version + len(entries), (*known.media, *digests)
        size = known.size + size_of(items[len(known.items) :])
        return msgspec.structs.replace(known, version=version, items=items, ends=ends, size=size, media=media)

    async def _media(self, tenant: Tenant, name: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        keys = [media_key(tenant.id, name, digest) for digest in digests]
        sealed = await self._archive.get_many(keys, self._ttl_s)
        opened = {d: tenant.open(key, value) for d, key, value in zip(digests, keys, sealed, strict=True)}
        found = {digest: value for digest, value in opened.items() if value is not None}
        if len(found) < len(digests):
            raise NotStored(_GONE)
        return found

    async def append(self, tenant: Tenant, history: History, items: Sequence[Held]) -> History | None:
        """Append one turn to a log as it was loaded; one of version 0 is made. None where it has been changed since:
        then nothing is stored. Raises StoreUnavailable."""
        began = time.perf_counter()
        key = log_key(tenant.id, history.name)
        stored, media = self._cut(items)
        new = {digest: value for digest, value in media.items() if digest not in history.media}
        sealed = {media_key(tenant.id, history.name, digest): value for digest, value in new.items()}
        if sealed:
            values = {name: tenant.seal(name, value) for name, value in sealed.items()}
            await self._archive.set_many(values, self._ttl_s)
        entries = [Entry(header=history.header)] if not history.version else []
        entries.append(Entry(stored))
        values_of = [seal_entry(tenant, key, history.version + i, entry) for i, entry in enumerate(entries)]
        size, seconds = size_of(items), time.perf_counter
        if not await self._archive.append(key, values_of, history.version, self._ttl_s):
            self.report("conflict", size, seconds() - began)
            return None
        self.report("append", size, seconds() - began)
        return self._after(key, history, items, values_of, tuple(new))

    def _after(
        self, key: str, history: History, items: Sequence[Held], values: Sequence[bytes], media: tuple[bytes, ...]
    ) -> History:
        """The log after an append, which is remembered too."""
        everything = [*history.items, *items]
        ends = [*history.ends, *([history.before] if len(values) > 1 else []), len(everything)]
        found = msgspec.structs.replace(
            history,
            version=history.version + len(values),
            first=history.first or values[0],
            items=everything,
            ends=ends,
            size=history.size + size_of(items),
            media=(*history.media, *media),
        )
        self._remember(key, _own_part(found))
        return found

    async def make(self, tenant: Tenant, name: str, header: Header, items: Sequence[Held] = ()) -> History | None:
        """Make a log, with a first turn where there are items. None where there is one of this name."""
        history = History(name, header)
        if items:
            return await self.append(tenant, history, items)
        key = log_key(tenant.id, name)
        value = seal_entry(tenant, key, 0, Entry(header=header))
        if not await self._archive.append(key, [value], 0, self._ttl_s):
            return None
        return msgspec.structs.replace(history, version=1, first=value, ends=[0])

    async def replace(self, tenant: Tenant, history: History, position: int, entry: Entry) -> bool:
        """Put an entry in the place of another. False where the log has been changed since it was loaded."""
        key = log_key(tenant.id, history.name)
        value = seal_entry(tenant, key, position, entry)
        marker = seal_entry(tenant, key, history.version, Entry(replaced=position))
        self._known.pop(key, None)
        return await self._archive.rewrite(key, position, value, marker, history.version, self._ttl_s)

    async def remove(self, tenant: Tenant, name: str) -> bool:
        """Delete a log and what was cut out of its items. False where there is none."""
        key = log_key(tenant.id, name)
        own = await self._own(tenant, name)
        self._known.pop(key, None)
        media = [media_key(tenant.id, name, digest) for digest in own.media] if own is not None else []
        await self._archive.remove(media)
        return bool(await self._archive.remove([key]))

    async def find(self, tenant: Tenant, ids: Sequence[str]) -> dict[str, Record]:
        """Where responses, or items of them, stand; those that the tenant has not are left out."""
        keys = [response_key(tenant.id, name) for name in ids]
        values = await self._archive.get_many(keys, self._ttl_s)
        found = {name: open_record(tenant, key, value) for name, key, value in zip(ids, keys, values, strict=True)}
        return {name: record for name, record in found.items() if record is not None}

    async def remember(self, tenant: Tenant, records: Mapping[str, Record]) -> None:
        """Keep where responses and items stand, by id."""
        named = {response_key(tenant.id, name): record for name, record in records.items()}
        sealed = {key: seal_record(tenant, key, record) for key, record in named.items()}
        await self._archive.set_many(sealed, self._ttl_s)

    async def forget(self, tenant: Tenant, response_id: str) -> bool:
        """Forget where a response stands. False where that is not known."""
        return bool(await self._archive.remove([response_key(tenant.id, response_id)]))

    def entry_of(self, items: Sequence[Held]) -> Entry:
        """The entry that holds these items, which are stored already."""
        return Entry(self._cut(items)[0])

    def _cut(self, items: Sequence[Held]) -> tuple[list[Item], dict[bytes, bytes]]:
        stored: list[Item] = []
        media: dict[bytes, bytes] = {}
        for item in items:
            pieces, found = cut(item.raw, self._bound)
            stored.append(Item(item.id, pieces, item.made, item.partial))
            media |= found
        return stored, media

    def _remember(self, key: str, history: History) -> None:
        self._known.pop(key, None)
        if _size(history) <= self._known.maxsize:
            self._known[key] = history


async def _opened(tenant: Tenant, key: str, log: Log | None, start: int) -> list[Entry]:
    """The entries of a log from a position on. Raises NotStored where one does not open."""
    values = log.entries if log is not None else []

    def work() -> list[Entry | None]:
        return [open_entry(tenant, key, position, value) for position, value in enumerate(values, start)]

    entries = await asyncio.to_thread(work) if sum(map(len, values)) > _HEAVY else work()
    found = [entry for entry in entries if entry is not None]
    if len(found) < len(entries):
        raise NotStored(_GONE)
    return found


def _own_part(history: History) -> History:
    """A log without its parent's items."""
    if not history.before:
        return history
    inherited, ends = history.items[: history.before], [end - history.before for end in history.ends]
    size = history.size - size_of(inherited)
    return msgspec.structs.replace(history, items=history.items[history.before :], ends=ends, before=0, size=size)


def size_of(items: Sequence[Held]) -> int:
    """Bytes of these items."""
    return sum([len(item.raw) for item in items])


def _size(history: History) -> int:
    return history.size + len(history.items) * _ITEM_OVERHEAD
