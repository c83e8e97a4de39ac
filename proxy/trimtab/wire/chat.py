"""A chat-completions request as a value: the bytes received, and typed fields beside them.

Bytes are sacred. A request is decoded into raw slices of its body, and `render` writes the slices back with only the
named fields replaced. Numbers, key order inside values, escapes and unknown fields come out as they went in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Raw

from trimtab.errors import InvalidRequest
from trimtab.wire.media import BYTE_ORDER_MARK
from trimtab.wire.messages import Messages, Spans

# An escaped high surrogate without its low half, or a low half alone: legal in JSON, illegal in Unicode.
_LONE = re.compile(
    rb"\\\\|(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


class Unreadable(Exception):
    """JSON that cannot be read here as a chat request. The upstream may still accept it, so it is sent unshaped."""


class ChatRequest(msgspec.Struct, frozen=True):
    """One request.

    `body` is what was received. `source` is what the raw slices point into: the same bytes, unless lone surrogates were
    replaced or a byte order mark was removed to read them. `max_tokens` is the larger of the request's two output
    limits, in tokens. `extras` are the fields beside the messages that a model reads, such as tools.
    """

    body: bytes
    source: bytes
    messages: Messages
    model: str = ""
    stream: bool = False
    max_tokens: int | None = None
    extras: tuple[Raw, ...] = ()
    has_tools: bool = False
    stream_options: dict[str, Raw] | None = None
    context_management: Raw | None = None

    @property
    def include_usage(self) -> bool:
        """True when the client asked for the usage in its stream (`stream_options.include_usage`)."""
        return bytes((self.stream_options or {}).get("include_usage", b"")) == b"true"


class _Head(msgspec.Struct):
    """The fields the proxy reads, typed strictly for speed. A wrong type falls back to `_decode_leniently`."""

    messages: list[Raw]
    model: str = ""
    stream: bool | None = None
    stream_options: dict[str, Raw] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    tools: Raw = Raw()
    functions: Raw = Raw()
    response_format: Raw = Raw()
    tool_choice: Raw = Raw()
    prediction: Raw = Raw()
    context_management: Raw = Raw()


_extras = attrgetter("tools", "functions", "response_format", "tool_choice", "prediction")
_head = msgspec.json.Decoder(_Head)
_fields = msgspec.json.Decoder(dict[str, Raw])


def decode(body: bytes, known: Spans | None = None) -> ChatRequest:
    """Read a request body. `known` are the places of messages at its start that were read before: they are skipped.

    Raises InvalidRequest when it is not JSON, and Unreadable when it is JSON but not an object with a list of messages,
    or nested or encoded in a way that is not supported here.
    """
    if known and (head := _decode_without(known, body)) is not None:
        return _request(body, body, head, Messages(body, head.messages[1:], known))
    source = body
    try:
        head = _head.decode(body)
    except msgspec.ValidationError:
        head = _decode_leniently(body)
    except (msgspec.DecodeError, RecursionError):
        source = replace_lone_surrogates(body.removeprefix(BYTE_ORDER_MARK))
        head = _decode_leniently(source)
    return _request(body, source, head, Messages(source, head.messages))


# Replaces the messages that are skipped. Random for each process (hash randomization), so that no body contains it.
_MARKER = b'"%d"' % hash(__name__)


def _cut_out(spans: Spans, body: bytes) -> bytes:
    return b"".join((body[: spans[0].start], _MARKER, body[spans[-1].stop :]))


def _decode_without(known: Spans, body: bytes) -> _Head | None:
    """The fields of a body, read with a marker in place of the known messages; None when it cannot be read like this.

    The marker must come out as the first message. Then the known messages are the first ones of the list that counts,
    also in a body that names `messages` twice.
    """
    try:
        head = _head.decode(_cut_out(known, body))
    except (msgspec.DecodeError, RecursionError):
        return None
    return head if head.messages and bytes(head.messages[0]) == _MARKER else None


def replace_lone_surrogates(body: bytes) -> bytes:
    """`body` with every escaped lone surrogate replaced by U+FFFD; the same object when there is nothing to replace."""
    return _LONE.sub(lambda m: rb"\ufffd" if m.group(2) else m.group(0), body) if b"\\u" in body else body


def _request(body: bytes, source: bytes, head: _Head, messages: Messages) -> ChatRequest:
    limits = [n for n in (head.max_tokens, head.max_completion_tokens) if n is not None and n > 0]
    management = head.context_management
    return ChatRequest(
        body=body,
        source=source,
        messages=messages,
        model=head.model,
        stream=bool(head.stream),
        max_tokens=max(limits, default=None),
        extras=tuple([raw for raw in _extras(head) if _is_present(raw)]),
        has_tools=_is_present(head.tools) or _is_present(head.functions),
        stream_options=head.stream_options,
        context_management=management if _is_present(management) else None,
    )


def _is_present(raw: Raw) -> bool:
    """True for a field that is there and not empty. Only values short enough for null or [] are compared."""
    return len(raw) > 4 or bytes(raw) not in (b"", b"null", b"[]")


def _decode_leniently(source: bytes) -> _Head:
    """The head, decoded field by field. A field of the wrong type counts as absent: the upstream will judge it."""
    try:
        fields = _fields.decode(source)
        messages = msgspec.json.decode(fields.get("messages", b"null"), type=list[Raw])
    except (msgspec.DecodeError, RecursionError) as error:
        raise _error_for(source) from error
    head = _Head(messages=messages)
    for name, kind in _Head.__annotations__.items():
        if name == "messages" or name not in fields:
            continue
        if kind == "Raw":
            setattr(head, name, fields[name])
        elif (value := _decode_as(fields[name], name)) is not None:
            setattr(head, name, value)
    return head


_TYPES: dict[str, Any] = {"model": str, "stream": bool, "stream_options": dict[str, Raw]}


def _decode_as(raw: Raw, name: str) -> Any:
    try:
        return msgspec.json.decode(raw, type=_TYPES.get(name, int))
    except msgspec.DecodeError:
        return None


def _error_for(source: bytes) -> Exception:
    """InvalidRequest for what is not JSON; Unreadable for JSON that only this reader cannot read."""
    try:
        json.loads(source)
    except RecursionError:
        return Unreadable("nested too deeply")
    except (ValueError, UnicodeDecodeError) as error:
        place = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        return InvalidRequest(f"The request body is not valid JSON{place}. Send a JSON object with `messages`.")
    return Unreadable("not an object with a list of messages")


def render(request: ChatRequest, messages: Iterable[bytes | Raw] | None, changes: Mapping[str, Any]) -> bytes:
    """The body to send: `messages` in place of the request's own (None keeps them), `changes` by field name (None
    removes the field). Every other field keeps its bytes and its place; a new one is added at the end."""
    fields: dict[str, Any] = dict(_fields.decode(request.source) if messages is None else _other_fields(request))
    if messages is not None:
        fields["messages"] = Raw(b"[" + b",".join(messages) + b"]")
    for name, value in changes.items():
        if value is None:
            fields.pop(name, None)
        else:
            fields[name] = value
    return msgspec.json.encode(fields)


def _other_fields(request: ChatRequest) -> dict[str, Raw]:
    """All fields, with any value for `messages`: they are not read again when their places are known."""
    if spans := request.messages.spans:
        with suppress(msgspec.DecodeError):
            fields = _fields.decode(_cut_out(spans, request.source))
            if bytes(fields["messages"]).strip(b"[] \t\r\n") == _MARKER:
                return fields
    return _fields.decode(request.source)
