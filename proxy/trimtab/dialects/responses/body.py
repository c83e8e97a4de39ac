"""A request of the Responses API: its items, and what it leaves to the server.

A conversation that the server holds cannot be planned: what is sent is only its newest part. It passes as it came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Raw

from trimtab.wire.body import Head, Layout, is_present, request_of
from trimtab.wire.cuts import Spans
from trimtab.wire.messages import Messages, Pieces, ToSend
from trimtab.wire.request import Request, Unmanaged


class _Head(Head, kw_only=True):
    """The fields the proxy reads. `input` may be the text of one user message."""

    input: list[Raw] | str
    max_output_tokens: int | None = None
    instructions: Raw = Raw()
    text: Raw = Raw()
    previous_response_id: Raw = Raw()
    conversation: Raw = Raw()
    prompt: Raw = Raw()


class _Typed(msgspec.Struct):
    type: Any = None


_HELD = ("previous_response_id", "conversation", "prompt")
_HEAD_BYTES = 64 << 10  # of a body: tools that come as an item are the first
_REFERENCE = "item_reference"
_extras = attrgetter("instructions", "tools", "tool_choice", "text")
_TEXT_ITEM = b'{"type":"message","role":"user","content":%b}'
_LAYOUT = Layout(_Head, "input")


def decode(body: bytes, known: Spans | None = None) -> Request:
    """Read a request body, as `Dialect.decode`."""
    source, head, items = _LAYOUT.read(body, known)
    for name in _HELD:
        if is_present(getattr(head, name)):
            raise Unmanaged(name, head.model)
    messages: Sequence[bytes | Raw] = [msgspec.json.encode(head.input)] if isinstance(head.input, str) else items
    if not isinstance(head.input, str) and _has_reference(items, source):
        raise Unmanaged(_REFERENCE, head.model)
    return request_of(
        body,
        source,
        messages,
        head,
        limits=(head.max_output_tokens,),
        extras=_extras(head),
        instructed=bool(head.instructions) and is_present(head.instructions),
        has_tools=is_present(head.tools) or source.find(b'"additional_tools"', 0, _HEAD_BYTES) >= 0,
        wants_json=b"json_object" in bytes(head.text),
        reports_usage=True,
    )


def render(request: Request, messages: ToSend | None, changes: Mapping[str, Any]) -> bytes:
    """The body to send, as `Layout.render` writes it. A conversation of one text never changes; where a message of the
    proxy's own comes before it, it is a message too."""
    is_text = len(request.messages) == 1 and bytes(request.messages[0])[:1] == b'"'
    if is_text and messages is not None and not isinstance(messages, Pieces):  # one text is never spliced
        messages = [_TEXT_ITEM % bytes(raw) if raw is request.messages[0] else raw for raw in messages]
    return _LAYOUT.render(request, messages, changes)


def _has_reference(items: Messages, source: bytes) -> bool:
    """True when an item that is new is a reference; what is known is none."""
    new = items.known[-1].stop if items.known else 0
    return source.find(b"item_reference", new) >= 0 and any(map(_is_reference, items.fresh))


def _is_reference(raw: bytes | Raw) -> bool:
    try:
        return bool(msgspec.json.decode(raw, type=_Typed).type == _REFERENCE)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
