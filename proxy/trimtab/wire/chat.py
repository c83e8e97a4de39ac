"""A chat-completions request as a value: the bytes received, and a typed view beside them.

Bytes are sacred. Nothing here re-encodes what it was not asked to change: a request is decoded into raw slices
of the body, and `render` writes the slices back with only the named fields replaced. Numbers, key order inside
values, escapes and fields this proxy has never heard of come out as they went in.
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

# An escaped high surrogate without its low half, or a low half alone: legal JSON, not legal Unicode.
_LONE = re.compile(
    rb"\\\\|(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


class Unreadable(Exception):
    """JSON that is not a request we understand; the upstream may still accept it, so it is passed on unshaped."""


class ChatRequest(msgspec.Struct, frozen=True):
    """One request. `body` is what was received; `source` is what the slices point into (the same, unless lone
    surrogates had to be replaced, or a byte order mark taken off, to read it)."""

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
    def usage_asked(self) -> bool:
        """Whether the client asked its stream for the usage itself."""
        return bytes((self.stream_options or {}).get("include_usage", b"")) == b"true"


class _Head(msgspec.Struct):
    """The fields the proxy reads. Typed strictly for speed; a wrong type falls back to `_leniently`."""

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
    """Read a request body. Messages it has in common with one read before, whose places are `known`, are stepped over.

    Raises InvalidRequest when it is not JSON at all, Unreadable when it is JSON but not a request with a list
    of messages (or nested or encoded in a way this reader does not follow).
    """
    if known and (head := _stepping_over(known, body)) is not None:
        return _request(body, body, head, Messages(body, head.messages[1:], known))
    source = body
    try:
        head = _head.decode(body)
    except msgspec.ValidationError:
        head = _leniently(body)
    except (msgspec.DecodeError, RecursionError):
        source = mend_surrogates(body.removeprefix(BYTE_ORDER_MARK))
        head = _leniently(source)
    return _request(body, source, head, Messages(source, head.messages))


# What stands in the place of messages that are stepped over; drawn for each process, so that no body holds it itself.
_STEP = b'"%d"' % hash(__name__)


def _without(spans: Spans, body: bytes) -> bytes:
    return b"".join((body[: spans[0].start], _STEP, body[spans[-1].stop :]))


def _stepping_over(known: Spans, body: bytes) -> _Head | None:
    """The body's head, read without the known messages; None where it does not begin with them after all, or cannot
    be read like this. What stands in their place must come out as the first message: then they are the first of the
    list that counts, also in a body that names its messages twice."""
    try:
        head = _head.decode(_without(known, body))
    except (msgspec.DecodeError, RecursionError):
        return None
    return head if head.messages and bytes(head.messages[0]) == _STEP else None


def mend_surrogates(body: bytes) -> bytes:
    """The body with every escaped lone surrogate replaced by U+FFFD; the same object when there is none."""
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
        extras=tuple([raw for raw in _extras(head) if _says(raw)]),
        has_tools=_says(head.tools) or _says(head.functions),
        stream_options=head.stream_options,
        context_management=management if _says(management) else None,
    )


def _says(raw: Raw) -> bool:
    """Whether a field is there with something in it; the bytes are looked at only where they can be null or []."""
    return len(raw) > 4 or bytes(raw) not in (b"", b"null", b"[]")


def _leniently(source: bytes) -> _Head:
    """Field by field: what has the wrong type is left to the upstream's judgement and counts as absent."""
    try:
        fields = _fields.decode(source)
        messages = msgspec.json.decode(fields.get("messages", b"null"), type=list[Raw])
    except (msgspec.DecodeError, RecursionError) as error:
        raise _refusal(source) from error
    head = _Head(messages=messages)
    for name, kind in _Head.__annotations__.items():
        if name == "messages" or name not in fields:
            continue
        if kind == "Raw":
            setattr(head, name, fields[name])
        elif (value := _typed(fields[name], name)) is not None:
            setattr(head, name, value)
    return head


_TYPES: dict[str, Any] = {"model": str, "stream": bool, "stream_options": dict[str, Raw]}


def _typed(raw: Raw, name: str) -> Any:
    try:
        return msgspec.json.decode(raw, type=_TYPES.get(name, int))
    except msgspec.DecodeError:
        return None


def _refusal(source: bytes) -> Exception:
    """Not JSON: the client's error. JSON that only this reader refuses: the upstream's to judge."""
    try:
        json.loads(source)
    except RecursionError:
        return Unreadable("nested too deeply to be read here")
    except (ValueError, UnicodeDecodeError) as error:
        place = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        return InvalidRequest(f"The request body is not valid JSON{place}. Send a JSON object with `messages`.")
    return Unreadable("not an object with a list of messages")


def render(request: ChatRequest, messages: Iterable[bytes | Raw] | None, changes: Mapping[str, Any]) -> bytes:
    """The body to send: `messages` in place of the request's own (None: keep them), `changes` by field name
    (None removes the field). Every other field keeps its bytes and its place."""
    fields: dict[str, Any] = dict(_fields.decode(request.source) if messages is None else _others(request))
    if messages is not None:
        fields["messages"] = Raw(b"[" + b",".join(messages) + b"]")
    for name, value in changes.items():
        if value is None:
            fields.pop(name, None)
        else:
            fields[name] = value
    return msgspec.json.encode(fields)


def _others(request: ChatRequest) -> dict[str, Raw]:
    """The fields beside the messages, which need not be read again where their places are known; and for `messages`
    anything."""
    if spans := request.messages.spans:
        with suppress(msgspec.DecodeError):
            fields = _fields.decode(_without(spans, request.source))
            if bytes(fields["messages"]).strip(b"[] \t\r\n") == _STEP:
                return fields
    return _fields.decode(request.source)
