"""One item of a Responses request, as the planner sees it and as it is written.

An item of an answer (`message` of the assistant, `reasoning`, any call) follows the item of the answer before it. What
ends in `_output` is the result of the call with its `call_id`. What stands for something that nobody here can read
(`compaction`, tools that a client adds) stays like a system message. An item of unknown type goes with the answer it
stands in, and is never changed. Types: the SDK openai 3.57, `ResponseInputItem`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
from msgspec import Raw

from trimtab.context.apply.cut import head_and_tail
from trimtab.context.apply.format import Format, itself
from trimtab.context.apply.goal import with_context_cut
from trimtab.context.apply.marks import unpin
from trimtab.context.apply.rewrite import (
    announce,
    cleared,
    join_text,
    lightened,
    squeeze_value,
    squeezed,
    truncated,
)
from trimtab.context.edits import Stage
from trimtab.context.estimate.parts import part_tokens
from trimtab.context.estimate.tokens import MESSAGE_OVERHEAD, bytes_tokens, text_tokens
from trimtab.context.read.texts import has_marks, has_pinned
from trimtab.context.read.views import PLACEHOLDER_TOKENS, Call, View, asked, content_size, digest, name_tokens
from trimtab.context.texts import CLEARED_ARGUMENTS, TRUNCATED
from trimtab.wire.body import fields_of

Fields = dict[str, Any]

_STAYS = frozenset({"compaction", "compaction_trigger", "additional_tools", "configuration_update"})
# Results whose output may be any text. Those of a computer, a shell or a search have a form of their own.
_CLEARABLE = frozenset({"function_call_output", "custom_tool_call_output", "apply_patch_call_output"})
_TEXT = "input_text"
_REQUEST, _RESPONSE = "mcp_approval_request", "mcp_approval_response"


class _Item(msgspec.Struct):
    """The fields read of an item."""

    type: str = "message"
    role: str | None = None
    content: Any = None
    call_id: Any = None
    id: Any = None
    name: Any = None
    arguments: Any = None
    input: Any = None
    output: Any = None
    summary: Any = None
    encrypted_content: Any = None
    approval_request_id: Any = None
    pinned: Any = msgspec.UNSET


_decode = msgspec.json.Decoder(_Item).decode


def view(raw: bytes | Raw, key: bytes = b"") -> View:
    """Read one item; `key`: its digest, where that is known. Never raises: one of unknown form has an opaque view."""
    data = bytes(raw)
    key = key or digest(data)
    if data[:1] == b'"':  # an `input` that is one text
        return View("user", bytes_tokens(data) + MESSAGE_OVERHEAD, digest=key)
    try:
        item = _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _opaque(data, key, "assistant")
    found = _view(item, data, key)
    if item.pinned is not msgspec.UNSET or has_marks(item.content) or has_marks(item.output):
        return msgspec.structs.replace(found, pinned=item.pinned is True or has_pinned(item.content), has_mark=True)
    return found


def _view(item: _Item, data: bytes, key: bytes) -> View:
    kind = item.type
    if kind == "message":
        return _message_view(item, data, key)
    if kind in _STAYS:
        return _opaque(data, key, "system")
    if kind == "reasoning":
        return View("assistant", _reasoning_tokens(item) + MESSAGE_OVERHEAD, follows=True, digest=key)
    if kind == _REQUEST:
        return _opaque(data, key, "assistant", calls=(Call(_id(item.id), _id(item.name)),))
    if kind == _RESPONSE:
        return _opaque(data, key, "tool", answers=_id(item.approval_request_id))
    if kind.endswith("_output"):
        return _result_view(item, data, key)
    if isinstance(item.call_id, str):
        return _call_view(item, data, key)
    return _opaque(data, key, "assistant")


def _message_view(item: _Item, data: bytes, key: bytes) -> View:
    role = item.role or ""
    if not isinstance(item.content, str | list | None):
        return _opaque(data, key, role)
    shape, chars, text, rest = content_size(item.content)
    tokens = text + rest + MESSAGE_OVERHEAD
    follows = role == "assistant"
    return View(role, tokens, text, chars, shape, follows=follows, cleared_tokens=tokens, digest=key)


def _result_view(item: _Item, data: bytes, key: bytes) -> View:
    """A result without a `call_id` belongs to no call that a client made, and stays beside what it follows."""
    call_id = item.id if item.type == "local_shell_call_output" and item.call_id is None else item.call_id
    if not isinstance(call_id, str):
        return _opaque(data, key, "context")
    if item.type not in _CLEARABLE or not isinstance(item.output, str | list):
        return _opaque(data, key, "tool", answers=call_id)
    shape, chars, text, rest = content_size(item.output)
    cleared = PLACEHOLDER_TOKENS + MESSAGE_OVERHEAD
    tokens = text + rest + MESSAGE_OVERHEAD
    return View("tool", tokens, text, chars, shape, answers=call_id, cleared_tokens=cleared, digest=key)


def _call_view(item: _Item, data: bytes, key: bytes) -> View:
    """Also of a call of unknown type: what has a `call_id` is answered by what repeats it."""
    name = _id(item.name) or item.type.removesuffix("_call")
    given = item.arguments if item.arguments is not None else item.input
    asks = asked(name, given)
    calls = tuple(Call(id, name, asks) for id in dict.fromkeys((_id(item.call_id), _id(item.id))) if id)
    if not isinstance(given, str):
        return _opaque(data, key, "assistant", calls=calls)
    size = text_tokens(given)
    tokens = size + name_tokens(name) + MESSAGE_OVERHEAD
    return View("assistant", tokens, calls=calls, call_tokens=size, follows=True, digest=key)


def _opaque(data: bytes, key: bytes, role: str, calls: tuple[Call, ...] = (), answers: str | None = None) -> View:
    """A view that lets nothing be changed. Media count by their size."""
    try:
        size = part_tokens(msgspec.json.decode(data)) + MESSAGE_OVERHEAD
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        size = bytes_tokens(data) + MESSAGE_OVERHEAD
    follows = role in ("assistant", "context")
    return View(
        role,
        size,
        shape="opaque",
        calls=calls,
        answers=answers,
        follows=follows,
        cleared_tokens=size,
        digest=key,
    )


_ENVELOPE = 650  # bytes of encrypted reasoning that are not text, and
_TOKEN_BYTES = 4  # bytes of a token: both as codex-rs estimates them (`estimate_reasoning_length`)


def _reasoning_tokens(item: _Item) -> int:
    encrypted = item.encrypted_content
    if isinstance(encrypted, str) and encrypted:
        return max(0, len(encrypted) * 3 // 4 - _ENVELOPE) // _TOKEN_BYTES
    return sum(part_tokens(value) for value in (item.content, item.summary) if value)


def _id(value: Any) -> str:
    return value if isinstance(value, str) else ""


# -- writing -----------------------------------------------------------------------------------------------------


def rewrite(raw: bytes | Raw, stage: Stage, amount: int) -> bytes:
    """The item after one edit. `amount`: characters of text to keep (truncated, trimmed, squeezed)."""
    fields: Fields = dict(fields_of(raw))
    where = "output" if "output" in fields else "content"
    if stage == "cleared":
        fields[where] = cleared(fields[where], amount, _TEXT)
    elif stage == "lightened":
        fields[where] = lightened(fields[where], _TEXT)
    elif stage == "trimmed":
        with_context_cut(fields, amount)
    elif stage == "truncated":
        fields[where] = truncated(msgspec.json.decode(fields[where]), amount)
    elif stage == "inputs_cleared":
        _edit_call(fields, lambda _: CLEARED_ARGUMENTS, lambda _: TRUNCATED)
    else:
        content = msgspec.json.decode(fields.get(where, b"null"))
        if isinstance(content, str | list):
            fields[where] = squeezed(content, amount)
        _edit_call(fields, partial(squeeze_value, chars=amount), partial(head_and_tail, chars=amount))
    return msgspec.json.encode(fields)


def _edit_call(fields: Fields, edit: Any, edit_text: Any) -> None:
    """Arguments stay valid JSON; the input of a custom tool is free text."""
    for name, change in (("arguments", edit), ("input", edit_text)):
        value = msgspec.json.decode(fields.get(name, b"null"))
        if isinstance(value, str):
            fields[name] = change(value)


def message(role: str, text: str) -> bytes:
    """A message item of the proxy's own."""
    kind = "output_text" if role == "assistant" else "input_text"
    return msgspec.json.encode({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})


# -- for summaries -----------------------------------------------------------------------------------------------


def as_chat(raw: bytes | Raw) -> bytes:
    """The item as a chat message, for the text that a summary is made of."""
    try:
        fields = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return bytes(raw)
    if not isinstance(fields, dict):
        return msgspec.json.encode({"role": "user", "content": fields})
    kind = fields.get("type") or "message"
    if kind == "message":
        found = {"role": fields.get("role"), "content": fields.get("content")}
    elif kind == "reasoning":
        found = {"role": "assistant", "content": fields.get("summary") or fields.get("content")}
    elif "output" in fields:
        found = {"role": "tool", "tool_call_id": fields.get("call_id"), "content": fields["output"]}
    else:
        made = {"name": fields.get("name") or kind, "arguments": fields.get("arguments", fields.get("input", ""))}
        found = {"role": "assistant", "tool_calls": [{"id": fields.get("call_id"), "function": made}]}
    return msgspec.json.encode(found)


FORMAT = Format(
    view,
    digest,
    rewrite,
    message,
    partial(join_text, kind=_TEXT),
    partial(announce, kind=_TEXT),
    unpin,
    itself,
    itself,
    as_chat,
    "output",
)
