"""A request body read as a layout: one list of messages, some fields beside it, and all other fields as raw bytes.

Bytes are sacred. A body is decoded into raw slices of itself, and `render` writes the slices back with only the named
fields replaced. Numbers, key order inside values, escapes and unknown fields come out as they went in. Each format is
one `Layout`: the name of its list, and the struct of the fields that the proxy reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, Generic, TypeVar, get_type_hints

import msgspec
from msgspec import Raw

from trimtab.errors import InvalidRequest
from trimtab.wire.cuts import Spans
from trimtab.wire.media import BYTE_ORDER_MARK
from trimtab.wire.messages import Messages, Pieces, ToSend, listed
from trimtab.wire.request import LONGEST_MODEL, Request, Unreadable
from trimtab.wire.values import has_more_of, holds

# An escaped high surrogate without its low half, or a low half alone: legal in JSON, illegal in Unicode.
_LONE = re.compile(
    rb"\\\\|(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
_MOST_BACKSLASHES = 4_000_000  # in one body: each keeps other threads waiting for some 10 ns while they are skipped
_MOST_ESCAPES = 500_000  # of characters in one body: each costs a call of a function
_LARGEST_EXPLAINED = 8 << 20  # bytes of JSON that are read once more to say what is wrong with them
# Replaces the messages that are skipped. Random for each process (hash randomization), so that no body contains it.
_MARKER = b'"%d"' % hash(__name__)

_LIST = Raw(b"[%b]" % _MARKER)

_fields = msgspec.json.Decoder(dict[str, Raw])
_routing = attrgetter("provider", "models", "transforms", "route")


class Head(msgspec.Struct, kw_only=True):
    """The fields that are read in every format. The last four are OpenRouter's, by which it chooses a route."""

    model: str = ""
    stream: bool | None = None
    tools: Raw = Raw()
    tool_choice: Raw = Raw()
    provider: Raw = Raw()
    models: Raw = Raw()
    transforms: Raw = Raw()
    route: Raw = Raw()


HeadT = TypeVar("HeadT", bound=msgspec.Struct)


class Layout(Generic[HeadT]):
    """How one format lays out its body. `head` is the struct of the fields that are read, typed strictly for speed;
    its field `name` holds the list of messages. A field of another type falls back to `_leniently`."""

    def __init__(self, head: type[HeadT], name: str) -> None:
        self._head, self.name = head, name
        self._decode = msgspec.json.Decoder(head).decode
        self._types = get_type_hints(head)
        raw_fields = [(name, Raw, Raw()) for name in self._types]
        self._decode_raw = msgspec.json.Decoder(msgspec.defstruct("Fields", raw_fields)).decode  # whatever their types

    def read(self, body: bytes, known: Spans | None = None) -> tuple[bytes, HeadT, Messages]:
        """The source, the head and the messages of a body. `known` are the places of messages at its start that were
        read before: they are skipped.

        Raises InvalidRequest when it is not JSON, and Unreadable when it is JSON but not an object with a list of
        messages, or nested or encoded in a way that is not supported here.
        """
        new = known[-1].stop if known else 0  # escapes before were counted when they were read
        has_too_many = has_more_of(body, b"\\", _MOST_BACKSLASHES, new)
        if known and not has_too_many and (head := self._without(known, body)) is not None:
            return body, head, Messages(body, getattr(head, self.name)[1:], known, self.name)
        if has_too_many or (new and has_more_of(body, b"\\", _MOST_BACKSLASHES)):
            raise Unreadable("too many characters that are escaped")
        source = body
        try:
            head = self._decode(body)
        except msgspec.ValidationError:
            head = self._leniently(body)
        except (msgspec.DecodeError, RecursionError):
            source = replace_lone_surrogates(body.removeprefix(BYTE_ORDER_MARK))
            head = self._leniently(source)
        return source, head, Messages(source, getattr(head, self.name), name=self.name)

    def render(self, request: Request, messages: ToSend | None, changes: Mapping[str, Any]) -> bytes:
        """The body to send: `messages` in place of the request's own (None keeps them), `changes` by field name (None
        removes the field). Every other field keeps its bytes and its place; a new one is added at the end."""
        fields: dict[str, Any] = dict(_top_level(request.source) if messages is None else self._others(request))
        if messages is not None:
            fields[self.name] = _LIST  # so the messages are copied once
        for name, value in changes.items():
            if value is None:
                fields.pop(name, None)
            else:
                fields[name] = value
        made = msgspec.json.encode(fields)
        if messages is None or self.name not in fields:
            return made
        before, _, after = made.partition(_MARKER)
        return b"".join([before, *(messages if isinstance(messages, Pieces) else [b",".join(messages)]), after])

    def _without(self, spans: Spans, body: bytes) -> HeadT | None:
        """The fields of a body, read with a marker in place of the known messages; None when it cannot be read like
        this.

        The marker must come out as the first message. Then the known messages are the first ones of the list that
        counts, also in a body that names the list twice.
        """
        try:
            head = self._decode(_cut_out(spans, body))
        except (msgspec.DecodeError, RecursionError):
            return None
        messages = getattr(head, self.name)
        return head if messages and bytes(messages[0]) == _MARKER else None

    def _leniently(self, source: bytes) -> HeadT:
        """The head, decoded field by field. A field of the wrong type counts as absent: the upstream will judge it."""
        try:
            fields = msgspec.structs.asdict(self._decode_raw(source))
            given = {self.name: msgspec.json.decode(fields[self.name] or b"null", type=self._types[self.name])}
        except (msgspec.DecodeError, RecursionError) as error:
            raise _error_for(source, self.name) from error
        for name, kind in self._types.items():
            if name in given or not len(fields[name]):
                continue
            with suppress(msgspec.DecodeError):
                value = fields[name] if kind is Raw else msgspec.json.decode(fields[name], type=kind)
                given.update({name: value} if value is not None else {})
        return self._head(**given)

    def _others(self, request: Request) -> dict[str, Raw]:
        """All fields, with any value for the list: it is not read again when the places in it are known."""
        messages = listed(request.messages)
        if messages is not None and (spans := messages.spans):
            with suppress(msgspec.DecodeError):
                fields = _fields.decode(_cut_out(spans, request.source))
                if bytes(fields[self.name]).strip(b"[] \t\r\n") == _MARKER:
                    return fields
        return _top_level(request.source)


def request_of(
    body: bytes,
    source: bytes,
    messages: Sequence[bytes | Raw],
    head: Head,
    *,
    limits: Iterable[int | None],
    extras: Iterable[Raw],
    has_tools: bool,
    **fields: Any,
) -> Request:
    """A request of what was read. `limits` are those of its output, in tokens; `fields` what only one format has.
    Raises Unreadable for a model that cannot be one."""
    if len(head.model) > LONGEST_MODEL:
        raise Unreadable("the model's name is too long")
    read = [raw for raw in extras if raw and is_present(raw)]
    routing = [raw for raw in _routing(head) if raw and is_present(raw)]
    return Request(
        body,
        source,
        messages,
        head.model,
        bool(head.stream),
        max((0, *filter(None, limits))) or None,
        tuple(read),
        has_tools,
        routing=tuple(routing),
        **fields,
    )


def fields_of(raw: bytes | Raw) -> dict[str, Raw]:
    """The fields of a JSON object, each as raw bytes. Bytes that are not UTF-8 become U+FFFD: a decoder finds them only
    in the fields that it is asked for. Raises msgspec.DecodeError for what is no object."""
    data = bytes(raw)
    if not data.isascii():
        data = data.decode("utf-8", "replace").encode()
    return _fields.decode(data)


def _top_level(body: bytes) -> dict[str, Raw]:
    """The fields of a body, which is looked at once more only where that is needed."""
    try:
        return _fields.decode(body)
    except msgspec.DecodeError:
        return fields_of(body)


def with_fields(body: bytes, fields: Mapping[str, Any]) -> bytes:
    """A JSON object with fields put before its closing brace; nothing else is touched. As it is where it is not one."""
    head = body.rstrip()
    if not head.endswith(b"}"):
        return body
    comma = b"" if head[:-1].rstrip().endswith(b"{") else b","
    return head[:-1] + comma + msgspec.json.encode(fields)[1:]


def with_fields_in(data: bytes, name: str, fields: Mapping[str, Any]) -> bytes | None:
    """A JSON object with fields added to the object that is its field `name`; None where it has none. Raises
    msgspec.DecodeError for what is no object."""
    found = fields_of(data)
    if name not in found or not bytes(found[name]).startswith(b"{"):
        return None
    return msgspec.json.encode({**found, name: Raw(with_fields(bytes(found[name]), fields))})


def values_of(body: bytes, *names: str) -> dict[str, Any]:
    """The values of some fields of a body, of those that are there and can be read."""
    fields, found = _top_level(body), dict[str, Any]()
    for name in names:
        with suppress(msgspec.DecodeError, KeyError):
            found[name] = msgspec.json.decode(fields[name])
    return found


def is_present(raw: Raw) -> bool:
    """True for a field that is there and not empty. Only values short enough for null or [] are compared."""
    return len(raw) > 4 or bytes(raw) not in (b"", b"null", b"[]")


def replace_lone_surrogates(body: bytes) -> bytes:
    """`body` with every escaped lone surrogate replaced by U+FFFD; the same object when there is nothing to replace, or
    too many escapes to look at."""
    if not holds(body, b"\\u") or has_more_of(body, b"\\", _MOST_ESCAPES):
        return body
    return _LONE.sub(lambda m: rb"\ufffd" if m.group(2) else m.group(0), body)


def _cut_out(spans: Spans, body: bytes) -> bytes:
    return b"".join((body[: spans[0].start], _MARKER, body[spans[-1].stop :]))


def _error_for(source: bytes, name: str) -> Exception:
    """InvalidRequest for what is not JSON; Unreadable for JSON that only this reader cannot read, and for more of it
    than can be looked at twice."""
    if len(source) > _LARGEST_EXPLAINED:
        return Unreadable(f"not JSON with a list of {name}")
    try:
        json.loads(source)
    except RecursionError:
        return Unreadable("nested too deeply")
    except (ValueError, UnicodeDecodeError) as error:
        place = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        return InvalidRequest(f"The request body is not valid JSON{place}. Send a JSON object with `{name}`.")
    return Unreadable("not an object with a list of messages" if name == "messages" else f"not an object with `{name}`")
