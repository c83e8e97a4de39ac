"""The fields that a client sets for this proxy: `pinned` on a message, a part or a tool call, and `context`
(true or false) on a text part. No upstream knows them, and a strict one refuses them: they are cut out of whatever is
sent, also within the results of tools and a system prompt of parts. Parts of other kinds may have a `context` of their
own, as a document of the Messages API has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from trimtab.context.read.texts import has_marked_calls, has_marks
from trimtab.wire.body import fields_of
from trimtab.wire.values import holds

_NAMES = (b"pinned", b'"context"', b"\\u")  # a name may be written with escapes


def may_have_marks(data: bytes) -> bool:
    """False for a body or a message that surely has none of the fields."""
    return any(holds(data, name) for name in _NAMES)


class _Mark(msgspec.Struct):
    pinned: Any = msgspec.UNSET
    content: Raw = Raw()
    output: Raw = Raw()
    tool_calls: Raw = Raw()
    type: Any = None
    text: Raw = Raw()
    context: Any = None


_mark = msgspec.json.Decoder(_Mark).decode


def is_marked(raw: bytes | Raw) -> bool:
    """True for a message, an item or a block with one of the fields, of any value, or with one in a part or a call.
    Never raises."""
    data = bytes(raw)
    if not any(name in data for name in _NAMES):
        return False
    try:
        found = _mark(data)
        if found.pinned is not msgspec.UNSET:
            return True
        if isinstance(found.type, str) and isinstance(found.context, bool) and len(found.text):
            return has_marks([{"type": found.type, "text": "", "context": found.context}])
        calls = bytes(found.tool_calls)
        if may_have_marks(calls) and has_marked_calls(msgspec.json.decode(calls)):
            return True
        lists = [bytes(each) for each in (found.content, found.output)]
        return any([each[:1] == b"[" and has_marks(msgspec.json.decode(each)) for each in lists])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def unpin(raw: bytes | Raw) -> bytes:
    """The message, item or block without these fields. Every other byte stays, but in an object with very many fields,
    with escapes in their names, or with a name that occurs twice."""
    data, fields = bytes(raw), fields_of(raw)
    for name, unmarked in _HOLDERS.items():
        inner = bytes(fields.get(name, b""))
        if inner and may_have_marks(inner) and (left := unmarked(inner)) != inner:
            data = _replaced(data, fields, name, left)
            fields = fields_of(data)
    if _is_context(fields):
        data = _without(data, fields, "context")
        fields = fields_of(data)
    return _without(data, fields, "pinned") if "pinned" in fields else data


_BETWEEN = re.compile(rb"[ \t\r\n,]*")


def without_marks_of_parts(content: bytes) -> bytes:
    """A list of parts without the marks of each; also one within an output of the AI SDK. Anything else as it is."""
    if content[:1] == b"[":
        return _parts(content, has_marks)
    fields = fields_of(content) if content[:1] == b"{" else {}
    if bytes(fields.get("type", b"")) != _CONTENT or bytes(fields.get("value", b""))[:1] != b"[":
        return content
    return _replaced(content, fields, "value", _parts(bytes(fields["value"]), has_marks))


def _calls(calls: bytes) -> bytes:
    return _parts(calls, has_marked_calls) if calls[:1] == b"[" else calls


_CONTENT = b'"content"'
_HOLDERS = {"content": without_marks_of_parts, "output": without_marks_of_parts, "tool_calls": _calls}


def _parts(content: bytes, are_marked: Callable[[list[Any]], bool]) -> bytes:
    pieces, at = [content[:1]], 1
    for part in map(bytes, msgspec.json.decode(content, type=list[Raw])):
        between = _BETWEEN.match(content, at)
        start = at if between is None else between.end()
        marked = part[:1] == b"{" and may_have_marks(part) and are_marked([msgspec.json.decode(part)])
        pieces += [content[at:start], unpin(part) if marked else part]
        at = start + len(part)
    return b"".join([*pieces, content[at:]])


def _is_context(fields: Mapping[str, Raw]) -> bool:
    """True for the fields of a text part with a `context`, true or false."""
    if bytes(fields.get("context", b"")) not in (b"true", b"false"):
        return False
    part = {name: msgspec.json.decode(fields[name]) for name in ("type", "text", "context") if name in fields}
    return has_marks([part])


_NAME = re.compile(rb'[ \t\r\n]*"([^"\\]*)"[ \t\r\n]*:[ \t\r\n]*')
_COMMA = re.compile(rb"[ \t\r\n]*(,[ \t\r\n]*)?")
_MOST_FIELDS = 100  # that are looked at one by one


class _Place(msgspec.Struct):
    """Where a field of an object stands, in bytes: its name, its value, and what follows its comma."""

    name: str
    start: int
    value: int
    stop: int
    after: int


def _without(data: bytes, fields: dict[str, Raw], removed: str) -> bytes:
    """An object's bytes without one of its fields: with the comma after it, or as the last one that before it."""
    before = data.index(b"{") + 1
    for place in _places(data, fields) or ():
        if place.name == removed:
            last = not data[place.stop : place.after].strip()
            return data[:before] + data[place.stop :] if last else data[: place.start] + data[place.after :]
        before = place.stop
    return msgspec.json.encode({name: value for name, value in fields.items() if name != removed})


def _replaced(data: bytes, fields: dict[str, Raw], name: str, value: bytes) -> bytes:
    """An object's bytes with another value of one of its fields."""
    for place in _places(data, fields) or ():
        if place.name == name:
            return data[: place.value] + value + data[place.stop :]
    return msgspec.json.encode({**fields, name: Raw(value)})


def _places(data: bytes, fields: dict[str, Raw]) -> list[_Place] | None:
    """Where the fields stand; None where they are not found one after the other."""
    if len(fields) > _MOST_FIELDS:
        return None
    found, at = list[_Place](), data.index(b"{") + 1
    for name, value in fields.items():
        named = _NAME.match(data, at)
        if named is None or named[1] != name.encode() or not data.startswith(bytes(value), named.end()):
            return None
        stop = named.end() + len(value)
        comma = _COMMA.match(data, stop)
        at = stop if comma is None else comma.end()
        found.append(_Place(name, named.start(1) - 1, named.end(), stop, at))
    return found if data[at : at + 1] == b"}" else None
