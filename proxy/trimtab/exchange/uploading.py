"""Files that clients upload (`POST /v1/files`) and name in requests, with `[conversations]`.

The purpose decides: a file that is input of requests is kept here, any other is passed on as it arrives, of any size.
Where the purpose comes after the file, as much is held as a file kept here may have; one with more is the upstream's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

import msgspec

from trimtab.conversations.conversations import Conversations
from trimtab.conversations.entries import DialectName
from trimtab.conversations.file_objects import shown
from trimtab.conversations.references import Content, added_size, named, rebuilt
from trimtab.conversations.uploads import KEPT, PurposeReader, boundary_of, upload_of
from trimtab.errors import BodyTooLarge, InvalidRequest
from trimtab.exchange.access import tenant
from trimtab.exchange.incoming import Body, Downstream, Incoming, reply
from trimtab.exchange.notes import Notes
from trimtab.exchange.offload import LIGHT_KNOWN, planned_beside
from trimtab.wire.media import JSON_HEADER

FILES = "/v1/files"
_MOST_NAMED = 1_000  # files in one request: each is looked up
_OTHER_API = b"anthropic-version"  # whose files have the same path and no purpose


def is_upload(incoming: Incoming) -> bool:
    """Whether a request uploads a file that may be kept here."""
    return incoming.method == "POST" and incoming.endpoint == FILES and _OTHER_API not in incoming.fields


def is_other_api(incoming: Incoming) -> bool:
    """Whether a request for files speaks another API than OpenAI's."""
    return _OTHER_API in incoming.fields


class Begun:
    """A body of which the beginning has been read."""

    def __init__(self, head: bytes, rest: Body) -> None:
        self._head, self._rest = head, rest

    async def read(self) -> bytes:
        """See `Body.read`; what is read is held."""
        parts = [self._head]
        async for chunk in self._rest.chunks():
            self._rest.hold(len(chunk))
            parts.append(chunk)
        return b"".join(parts)

    async def chunks(self) -> AsyncIterator[bytes]:
        """See `Body.chunks`."""
        yield self._head
        async for chunk in self._rest.chunks():
            yield chunk

    def hold(self, size: int) -> None:
        """See `Body.hold`."""
        self._rest.hold(size)


async def kept_or_begun(
    conversations: Conversations, incoming: Incoming, body: Body, downstream: Downstream, notes: Notes
) -> Body | None:
    """Keep an upload and answer it: None. Or the body to pass on. Raises InvalidRequest, BodyTooLarge, Conflict,
    StoreUnavailable, and what reading the body raises."""
    boundary = boundary_of(incoming.header(b"content-type"))
    if not boundary or incoming.header(b"content-encoding"):
        return body
    with notes.waiting():
        purpose, begun = await _beginning(body, boundary, conversations.files.most_bytes)
        if purpose not in KEPT:
            return begun
        raw = await begun.read()
        upload = await planned_beside(len(raw) > LIGHT_KNOWN, upload_of, raw, boundary)
        file = await conversations.files.add(conversations.tenant(tenant(incoming)), upload)
    notes.outcome, notes.status = "stored", 200
    await reply(downstream, 200, [JSON_HEADER], msgspec.json.encode(shown(file)), incoming.request_id)
    return None


async def _beginning(body: Body, boundary: str, most: int) -> tuple[str, Begun]:
    """The purpose of a form, and the body again; "" where none has come within `most` bytes of it."""
    reader, head, size = PurposeReader(boundary), list[bytes](), 0
    async with aclosing(body.chunks()) as chunks:  # type: ignore[type-var]
        async for chunk in chunks:
            head.append(chunk)
            size += len(chunk)
            try:
                body.hold(len(chunk))
            except BodyTooLarge:
                break
            if reader.feed(chunk) or size > most:
                break
    return reader.purpose, Begun(b"".join(head), body)


async def with_files(
    conversations: Conversations, incoming: Incoming, dialect: DialectName, raw: bytes, body: Body
) -> bytes:
    """The request with the files it names, as far as they are kept here for its tenant. Raises InvalidRequest,
    StoreUnavailable, BodyTooLarge, Overloaded."""
    ids = await planned_beside(len(raw) > LIGHT_KNOWN, named, raw)
    if not ids:
        return raw
    if len(ids) > _MOST_NAMED:
        raise InvalidRequest(f"The request names files {len(ids)} times. Name at most {_MOST_NAMED}.")
    owner, files = conversations.tenant(tenant(incoming)), conversations.files
    known = await files.find(owner, list(dict.fromkeys(ids)))
    body.hold(sum([added_size(known[name].size) for name in ids if name in known]))
    contents: dict[str, Content] = {}
    for name, file in known.items():
        data = await files.content(owner, file)
        if data is not None:
            contents[name] = Content(file.name, file.media_type, data)
    if not contents:
        return raw
    heavy = sum([len(content.data) for content in contents.values()]) > LIGHT_KNOWN
    return await planned_beside(heavy, rebuilt, raw, dialect, contents)
