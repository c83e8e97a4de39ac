"""Uploaded files as OpenAI's API shows them, and the endpoints that read and delete them for one tenant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trimtab.conversations.conversations import Conversations
from trimtab.conversations.files import File
from trimtab.conversations.uploads import KEPT
from trimtab.errors import InvalidRequest, NotStored

Object = dict[str, Any]
MOST_LISTED: Final = 10_000  # files of one page, as OpenAI's


def shown(file: File) -> Object:
    """A file, without its content."""
    ends = {} if file.expires_at is None else {"expires_at": file.expires_at}
    return {
        **{"id": file.id, "object": "file", "bytes": file.size, "created_at": file.created_at},
        **{"filename": file.name, "purpose": file.purpose, "status": "processed", **ends},
    }


def is_kept(purpose: str) -> bool:
    """Whether a list of files of this purpose ("" for any) is of those kept here."""
    return not purpose or purpose in KEPT


class FileEndpoints:
    """`/v1/files` for one tenant, which is recognized by `identity`. All raise NotStored for a file that the tenant
    does not have, and StoreUnavailable."""

    def __init__(self, conversations: Conversations, identity: bytes) -> None:
        self._files, self._tenant = conversations.files, conversations.tenant(identity)

    async def listed(self, query: Mapping[str, str]) -> Object:
        """`GET /v1/files`. Raises InvalidRequest."""
        limit, order = query.get("limit", str(MOST_LISTED)), query.get("order", "desc")
        if not limit.isdecimal() or not 1 <= int(limit) <= MOST_LISTED:
            raise InvalidRequest(f"Invalid limit. Use 1 to {MOST_LISTED}.", param="limit")
        if order not in ("asc", "desc"):
            raise InvalidRequest("Invalid order. Use asc or desc.", param="order")
        files = await self._files.listed(self._tenant)
        files = [file for file in files if query.get("purpose", "") in ("", file.purpose)]
        files = files if order == "asc" else files[::-1]
        start = 0
        if after := query.get("after", ""):
            start = next((at + 1 for at, file in enumerate(files) if file.id == after), 0)
            if not start:
                raise NotStored("The file named by `after` is not kept.", param="after")
        page = files[start : start + int(limit)]
        ends = [page[0].id, page[-1].id] if page else [None, None]
        return {
            **{"object": "list", "data": [shown(file) for file in page], "first_id": ends[0], "last_id": ends[1]},
            "has_more": start + len(page) < len(files),
        }

    async def file(self, name: str) -> Object:
        """`GET /v1/files/{id}`."""
        return shown(await self._file(name))

    async def content(self, name: str) -> bytes:
        """`GET /v1/files/{id}/content`."""
        data = await self._files.content(self._tenant, await self._file(name))
        if data is None:
            raise _missing(name)
        return data

    async def delete(self, name: str) -> Object:
        """`DELETE /v1/files/{id}`."""
        file = await self._file(name)
        await self._files.remove(self._tenant, file)
        return {"id": file.id, "object": "file", "deleted": True}

    async def _file(self, name: str) -> File:
        found = (await self._files.find(self._tenant, [name])).get(name)
        if found is None:
            raise _missing(name)
        return found


def _missing(name: str) -> NotStored:
    return NotStored(f"No such File object: {name[:80]}", param="id")
