"""The field `pinned` of a message, which a client sets for this proxy. No upstream knows it, and a strict one refuses
it: it is cut out of whatever is sent.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Raw

from trimtab.wire.body import fields_of


class _Mark(msgspec.Struct):
    pinned: Any = msgspec.UNSET


_mark = msgspec.json.Decoder(_Mark).decode


def is_marked(raw: bytes | Raw) -> bool:
    """True for a message with a field `pinned`, of any value. Never raises."""
    data = bytes(raw)
    if b"pinned" not in data and b"\\u" not in data:  # the name may be written with escapes
        return False
    try:
        return _mark(data).pinned is not msgspec.UNSET
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def unpin(raw: bytes | Raw) -> bytes:
    """The message without the field `pinned`, which is ours: no upstream knows it. Every other byte stays, but in a
    message with very many fields, with escapes in their names, or with a name that occurs twice."""
    data, fields = bytes(raw), fields_of(raw)
    if (rest := _without(data, fields, "pinned")) is None:
        fields.pop("pinned", None)
        rest = msgspec.json.encode(fields)
    return rest


_NAME = re.compile(rb'[ \t\r\n]*"([^"\\]*)"[ \t\r\n]*:[ \t\r\n]*')
_COMMA = re.compile(rb"[ \t\r\n]*(,[ \t\r\n]*)?")
_MOST_FIELDS = 100  # that are looked at one by one


def _without(data: bytes, fields: dict[str, Raw], removed: str) -> bytes | None:
    """An object's bytes with one of its fields cut out; None where the fields are not found one after the other."""
    if len(fields) > _MOST_FIELDS:
        return None
    rest, before, at = data, data.index(b"{") + 1, data.index(b"{") + 1
    for name, value in fields.items():
        found = _NAME.match(data, at)
        if found is None or found[1] != name.encode() or not data.startswith(bytes(value), found.end()):
            return None
        stop = found.end() + len(value)
        comma = _COMMA.match(data, stop)
        at = stop if comma is None else comma.end()
        if name == removed:  # with the comma after it, or as the last field with the one before it
            rest = data[: found.start(1) - 1] + data[at:] if data[stop:at].strip() else data[:before] + data[stop:]
        before = stop
    return rest if data[at : at + 1] == b"}" else None
