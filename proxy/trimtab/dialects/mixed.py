"""Chat messages that hold blocks of another format: `tool_use` in an assistant's content and `tool_result` in a user's,
as Anthropic has them, which Cursor and gateways send to chat completions; and the parts `tool-call` and `tool-result`
of the AI SDK. Their calls and results are pairs like any other, also mixed with `tool_calls` and tool messages.

A user message with results is planned block by block and written as one message again, as the Messages dialect does it.
Messages without such blocks are read and written as in any chat.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw

from trimtab.context.apply import rewrite as writing
from trimtab.context.apply.format import Format, itself
from trimtab.context.apply.marks import unpin
from trimtab.context.apply.rewrite import squeeze_value
from trimtab.context.edits import Stage
from trimtab.context.estimate.tokens import bytes_tokens
from trimtab.context.read.views import Call, View, asked, digest
from trimtab.context.read.views import view as read
from trimtab.context.texts import PLACEHOLDER
from trimtab.dialects.messages import writing as blocks
from trimtab.dialects.messages.body import Elements, role_of
from trimtab.dialects.messages.elements import kind_of
from trimtab.dialects.messages.elements import view as block_view
from trimtab.wire.body import fields_of
from trimtab.wire.messages import Cut

RESULT = b'"tool_result"'
"""Stands in a body that has to be cut into blocks. In a text its quotes are escaped."""

_CALLS = (b'"tool_use"', b'"tool-call"')
_SDK_RESULT = b'"tool-result"'
Fields = dict[str, Any]


class Mixed(Elements):
    """Messages of a chat, with the user messages that hold results cut into their blocks."""

    def cut(self, raw: Raw) -> Cut | None:
        """As `Elements.cut`; a system message stays where it is."""
        found = super().cut(raw) if RESULT in bytes(raw) else None
        return found if found is not None and found[0] else None


def view(raw: bytes | Raw, key: bytes = b"") -> View:
    """Read one message or block; `key` is its digest, where that is known. Never raises."""
    found = read(raw, key)
    if not found.role:
        return block_view(raw, key or digest(raw)) if role_of(raw) is None else found
    if found.shape != "parts":
        return found
    data = bytes(raw)
    if found.role == "assistant" and any(word in data for word in _CALLS):
        return _with_calls(found, data)
    return _sdk_result(found, data) if found.role == "tool" and _SDK_RESULT in data else found


def _with_calls(found: View, data: bytes) -> View:
    """The view of an answer with the calls in its content too; their tokens are counted already, as parts."""
    made = [(call, given) for part in _content(data) if (call := _call(part)) is not None for given in [_given(part)]]
    tokens = sum(bytes_tokens(msgspec.json.encode(given)) for _, given in made)
    calls = (*found.calls, *(call for call, _ in made))
    return msgspec.structs.replace(found, calls=calls, call_tokens=found.call_tokens + tokens)


def _call(part: Any) -> Call | None:
    kind = kind_of(part)
    if kind == "tool_use":
        id, name = str(part.get("id", "")), str(part.get("name", ""))
    elif kind == "tool-call":
        id, name = str(part.get("toolCallId", "")), str(part.get("toolName", ""))
    else:
        return None
    return Call(id, name, asked(name, _given(part)))


def _given(part: Any) -> Any:
    return next((part[name] for name in _INPUTS if name in part), None)


_INPUTS = ("input", "args")


def _sdk_result(found: View, data: bytes) -> View:
    """The view of a tool message whose id may stand in its parts, which keep it when they are cleared."""
    ids = [str(part.get("toolCallId", "")) for part in _content(data) if kind_of(part) == "tool-result"]
    cleared = read(_cleared_sdk(data, PLACEHOLDER)).tokens
    return msgspec.structs.replace(found, answers=found.answers or next(iter(ids), ""), cleared_tokens=cleared)


def _content(data: bytes) -> list[Any]:
    content = msgspec.json.decode(fields_of(data)["content"])
    return content if isinstance(content, list) else []


def rewrite(raw: bytes | Raw, stage: Stage, amount: int) -> bytes:
    """The message or block after one edit."""
    data = bytes(raw)
    if role_of(data) is None:
        return blocks.rewrite(raw, stage, amount)
    if stage == "cleared" and _SDK_RESULT in data:
        return _cleared_sdk(data, writing.placeholder(amount))
    written = writing.rewrite(raw, stage, amount)
    if stage not in ("inputs_cleared", "squeezed") or not any(word in data for word in _CALLS):
        return written
    edit: Callable[[Any], Any] = (lambda _: {}) if stage == "inputs_cleared" else partial(squeeze_value, chars=amount)
    fields: Fields = dict(fields_of(written))
    fields["content"] = [_with_input(part, edit) for part in _content(written)]
    return msgspec.json.encode(fields)


def _with_input(part: Any, edit: Callable[[Any], Any]) -> Any:
    """A call with its input edited; an input is an object and stays one."""
    if _call(part) is None:
        return part
    return {**part, **{name: edit(part[name]) for name in _INPUTS if isinstance(part.get(name), dict)}}


def _cleared_sdk(data: bytes, text: str) -> bytes:
    """A tool message of the AI SDK, cleared: each part keeps its id. A result is any value, an output has a type."""
    fields: Fields = dict(fields_of(data))
    fields["content"] = [_cleared_part(part, text) for part in _content(data)]
    return msgspec.json.encode(fields)


def _cleared_part(part: Any, text: str) -> Any:
    if kind_of(part) != "tool-result":
        return part
    left = {name: value for name, value in part.items() if name not in ("result", "output", "content")}
    if "output" in part:
        return {**left, "output": {"type": "text", "value": text}}
    return {**left, "result": text}


def as_chat(raw: bytes | Raw) -> bytes | Raw:
    """The message or block in chat's own form, for the text that a summary is made of."""
    data = bytes(raw)
    if role_of(data) is None:
        return blocks.as_chat(raw)
    if not any(word in data for word in (*_CALLS, _SDK_RESULT)):
        return raw
    try:
        fields = msgspec.json.decode(data)
        content = fields["content"] if isinstance(fields["content"], list) else []
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError, TypeError):
        return raw
    calls = [
        {"id": call.id, "function": {"name": call.name, "arguments": _given(part)}}
        for part in content
        if (call := _call(part)) is not None
    ]
    if calls:
        fields["tool_calls"] = [*(fields.get("tool_calls") or ()), *calls]
    if content:
        fields["content"] = [_readable(part) for part in content if _call(part) is None]
    return msgspec.json.encode(fields)


def _readable(part: Any) -> Any:
    """A part as text, where it is a result of the AI SDK."""
    if kind_of(part) != "tool-result":
        return part
    value = part.get("output", part.get("result"))
    value = value.get("value") if isinstance(value, dict) and "value" in value else value
    return {"type": "text", "text": value if isinstance(value, str) else msgspec.json.encode(value).decode()}


FORMAT = Format(
    view,
    digest,
    rewrite,
    writing.message,
    writing.join_text,
    writing.announce,
    unpin,
    itself,
    itself,
    as_chat,
)
