"""Files that clients upload to be named in requests, for one tenant at a time.

A file is its description and its content in pieces, each a sealed record, so that no call of an archive is a large one.
A list of the tenant's files stands beside them. All of it is kept until it has not been used for `ttl_s`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import Final

import msgspec

from trimtab.conversations.archive import Archive
from trimtab.conversations.settings import ConversationsSettings
from trimtab.conversations.uploads import Upload
from trimtab.errors import BodyTooLarge, Conflict
from trimtab.store.keys import file_key, lock_key
from trimtab.store.sealed import Tenant

IS_OURS: Final = re.compile(r"file-[0-9a-f]{32}")
"""An id that is made here. OpenAI's are shorter."""

PIECE = 1 << 20  # bytes of one record
_LOCK_S, _WAIT_S = 10.0, 0.05  # how long the list is locked at most; between two tries to lock it
_TRIES = 100
_LIST = ""  # the id under which the list is kept


class File(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a file. `size` in bytes; `created_at` and `expires_at` in seconds since 1970; `expires_at` only
    where the client set it."""

    id: str
    name: str
    media_type: str
    purpose: str
    size: int
    created_at: int
    expires_at: int | None = None


class Listed(msgspec.Struct, frozen=True, array_like=True):
    """A file in the list: its id, and its size in bytes."""

    id: str
    size: int


_file = msgspec.msgpack.Decoder(File).decode
_list = msgspec.msgpack.Decoder(list[Listed]).decode


class Files:
    """All files of an archive. `clock` gives seconds since 1970."""

    def __init__(
        self, archive: Archive, settings: ConversationsSettings, clock: Callable[[], float] = time.time
    ) -> None:
        self._archive, self._ttl_s, self._clock = archive, settings.ttl_s, clock
        self._most, self._most_of_all = settings.max_file_mb << 20, settings.max_files_mb << 20

    @property
    def most_bytes(self) -> int:
        """The size of the largest file that is kept."""
        return self._most

    async def add(self, tenant: Tenant, upload: Upload) -> File:
        """Keep a file. Raises BodyTooLarge above a bound, Conflict while others are added all the time, and
        StoreUnavailable."""
        now, size = int(self._clock()), len(upload.data)
        if size > self._most:
            raise BodyTooLarge(
                f"The file is larger than {self._most >> 20} MB. Send a smaller one, or raise max_file_mb in "
                "[conversations].",
                param="file",
            )
        ends = None if upload.lasts_s is None else now + upload.lasts_s
        made = File(f"file-{token_hex(16)}", upload.name, upload.media_type, upload.purpose, size, now, ends)
        for n, start in enumerate(range(0, size, PIECE)):
            await self._set(tenant, made.id, upload.data[start : start + PIECE], n)
        try:
            async with self._alone(tenant):
                listed = await self._room_for(tenant, size)
                await self._set(tenant, made.id, msgspec.msgpack.encode(made))
                await self._write_list(tenant, [*listed, Listed(made.id, size)])
        except (BodyTooLarge, Conflict):
            await self._archive.remove(_keys(tenant, made))
            raise
        return made

    async def _room_for(self, tenant: Tenant, size: int) -> list[Listed]:
        """The list, in which there is room for another file. Those that have run out are looked for only where there
        is none."""
        listed = await self._read_list(tenant)
        if sum([each.size for each in listed]) + size > self._most_of_all:
            there = await self.find(tenant, [each.id for each in listed])
            listed = [each for each in listed if each.id in there]
        if sum([each.size for each in listed]) + size > self._most_of_all:
            raise BodyTooLarge(
                f"Your files would take more than {self._most_of_all >> 20} MB. Delete some, or raise max_files_mb in "
                "[conversations].",
                param="file",
            )
        return listed

    async def find(self, tenant: Tenant, ids: Sequence[str]) -> dict[str, File]:
        """What is known of these files; those that the tenant has not are left out. Raises StoreUnavailable."""
        names = [name for name in ids if IS_OURS.fullmatch(name)]
        keys = [file_key(tenant.id, name) for name in names]
        values = await self._archive.get_many(keys, self._ttl_s) if keys else []
        opened = [tenant.open(key, value) for key, value in zip(keys, values, strict=True)]
        found = {name: _file(text) for name, text in zip(names, opened, strict=True) if text is not None}
        now = self._clock()
        return {name: file for name, file in found.items() if file.expires_at is None or now < file.expires_at}

    async def content(self, tenant: Tenant, file: File) -> bytes | None:
        """The bytes of a file; None where a part of them is gone. Raises StoreUnavailable."""
        pieces: list[bytes] = []
        for n in range(_pieces(file.size)):
            key = file_key(tenant.id, file.id, n)
            [value] = await self._archive.get_many([key], self._ttl_s)
            piece = await asyncio.to_thread(tenant.open, key, value)
            if piece is None:
                return None
            pieces.append(piece)
        await self._archive.keep([file_key(tenant.id, _LIST)], self._ttl_s)
        return b"".join(pieces)

    async def remove(self, tenant: Tenant, file: File) -> None:
        """Delete a file. Raises Conflict and StoreUnavailable."""
        async with self._alone(tenant):
            listed = await self._read_list(tenant)
            await self._archive.remove(_keys(tenant, file))
            await self._write_list(tenant, [each for each in listed if each.id != file.id])

    async def listed(self, tenant: Tenant) -> list[File]:
        """The tenant's files, oldest first, each kept for as long as if it was used now. Raises StoreUnavailable."""
        found = await self.find(tenant, [each.id for each in await self._read_list(tenant)])
        await self._archive.keep([key for file in found.values() for key in _keys(tenant, file)], self._ttl_s)
        return list(found.values())

    async def _read_list(self, tenant: Tenant) -> list[Listed]:
        key = file_key(tenant.id, _LIST)
        [value] = await self._archive.get_many([key], self._ttl_s)
        text = tenant.open(key, value)
        return [] if text is None else _list(text)

    async def _write_list(self, tenant: Tenant, listed: list[Listed]) -> None:
        await self._set(tenant, _LIST, msgspec.msgpack.encode(listed))

    async def _set(self, tenant: Tenant, name: str, text: bytes, piece: int | None = None) -> None:
        key = file_key(tenant.id, name, piece)
        sealed: Mapping[str, bytes] = {key: await asyncio.to_thread(tenant.seal, key, text)}
        await self._archive.set_many(sealed, self._ttl_s)

    @asynccontextmanager
    async def _alone(self, tenant: Tenant) -> AsyncIterator[None]:
        """Alone with the list, after a short wait for others."""
        key, token = lock_key(file_key(tenant.id, _LIST)), token_hex(16)
        for _ in range(_TRIES):
            if await self._archive.lock(key, token, _LOCK_S):
                break
            await asyncio.sleep(_WAIT_S)
        else:
            raise Conflict("Other files are being added or deleted. Send this request again.")
        try:
            yield
        finally:
            await asyncio.shield(self._archive.unlock(key, token))


def _pieces(size: int) -> int:
    return -(-size // PIECE)


def _keys(tenant: Tenant, file: File) -> list[str]:
    """The keys of a file: of its description, and of each piece."""
    return [file_key(tenant.id, file.id), *(file_key(tenant.id, file.id, n) for n in range(_pieces(file.size)))]
