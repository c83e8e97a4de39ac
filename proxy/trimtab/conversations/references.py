"""Files by reference: a part that names a file kept here is sent with the file itself, as a data URL (RFC 2397).

Only such a part changes; everything else of a request keeps its bytes, and the same file gives the same bytes. What is
stored keeps the reference. Pure.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

import msgspec
from msgspec import Raw

from trimtab.conversations.answer import decoded
from trimtab.conversations.entries import DialectName, object_of

_LISTED: Final[dict[DialectName, str]] = {"chat": "messages", "responses": "input"}
_NAMED = re.compile(rb'"file_id"\s*:\s*"(file-[0-9a-f]{32})"')
_WORD: Final = b'"file_id"'
_ROOM = 200  # bytes that a data URL takes beside the content: media type, filename, field names

Fields = dict[str, Raw]


class Content(NamedTuple):
    """A file to be sent: its name, its media type, its bytes."""

    name: str
    media_type: str
    data: bytes


def named(body: bytes) -> list[str]:
    """The ids in a request that may be of files kept here, one for each place."""
    return [found.decode() for found in _NAMED.findall(body)] if _WORD in body else []


def added_size(size: int) -> int:
    """Bytes that a file of so many adds to a request."""
    return (size + 2) // 3 * 4 + _ROOM


def rebuilt(body: bytes, dialect: DialectName, files: Mapping[str, Content]) -> bytes:
    """The request with these files in the place of references to them."""
    field = _LISTED[dialect]
    fields = cast(Fields | None, decoded(body, Fields))
    items = cast(list[Raw] | None, decoded(fields.get(field, b""), list[Raw])) if fields else None
    if fields is None or items is None:
        return body
    return object_of(fields, field, [_item(bytes(item), files) for item in items])


def _item(raw: bytes, files: Mapping[str, Content]) -> bytes:
    """A message, or an item with parts in its content or its output."""
    fields = cast(Fields | None, decoded(raw, Fields)) if _WORD in raw else None
    if fields is None:
        return raw
    changed = {name: _parts(fields[name], files) for name in ("content", "output") if name in fields}
    return msgspec.json.encode({**fields, **changed})


def _parts(raw: Raw, files: Mapping[str, Content]) -> Raw:
    parts = cast(list[Raw] | None, decoded(raw, list[Raw]))
    if parts is None:
        return raw
    return Raw(msgspec.json.encode([_part(part, files) if _WORD in bytes(part) else part for part in parts]))


def _part(raw: Raw, files: Mapping[str, Content]) -> Raw:
    fields = cast(Fields | None, decoded(raw, Fields)) or {}
    match decoded(fields.get("type", b""), str):
        case "input_file":
            changed = _file(fields, files)
        case "input_image":
            changed = _image(fields, files)
        case "file":
            inner = cast(Fields | None, decoded(fields.get("file", b""), Fields)) or {}
            found = _file(inner, files)
            changed = None if found is None else {**fields, "file": Raw(msgspec.json.encode(found))}
        case _:
            changed = None
    return raw if changed is None else Raw(msgspec.json.encode(changed))


def _file(fields: Fields, files: Mapping[str, Content]) -> Fields | None:
    found = _content(fields, files)
    if found is None:
        return None
    name = {} if "filename" in fields else {"filename": Raw(msgspec.json.encode(found.name))}
    return {**_without_id(fields), **name, "file_data": _data_url(found)}


def _image(fields: Fields, files: Mapping[str, Content]) -> Fields | None:
    found = _content(fields, files)
    return None if found is None else {**_without_id(fields), "image_url": _data_url(found)}


def _content(fields: Fields, files: Mapping[str, Content]) -> Content | None:
    name: Any = decoded(fields.get("file_id", b""), str)
    return files.get(name) if name else None


def _without_id(fields: Fields) -> Fields:
    return {name: raw for name, raw in fields.items() if name != "file_id"}


def _data_url(file: Content) -> Raw:
    return Raw(b'"data:%b;base64,%b"' % (file.media_type.encode(), b64encode(file.data)))
