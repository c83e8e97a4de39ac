"""One element of a Messages request as it is written after an edit. Fields that are not named here keep theirs, cache
marks too; a new mark is never made, and no content is ever left empty.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw

from trimtab.context.apply.cut import head, head_and_tail
from trimtab.context.apply.format import Format
from trimtab.context.apply.goal import with_context_cut
from trimtab.context.apply.marks import unpin
from trimtab.context.apply.rewrite import cleared, join_text, lightened, squeeze_value, squeezed, truncated
from trimtab.context.edits import Stage
from trimtab.context.texts import TRUNCATED
from trimtab.dialects.messages.elements import THOUGHTS, canonical, digest, kind_of, view
from trimtab.wire.body import fields_of

Fields = dict[str, Any]
_NOT_SHOWN = THOUGHTS | {"tool_use"}  # in a text for the summary model


def rewrite(raw: bytes | Raw, stage: Stage, amount: int) -> bytes:
    """The element after one edit. `amount`: characters of text to keep (truncated, trimmed, squeezed)."""
    fields: Fields = dict(fields_of(raw))
    if stage == "trimmed":
        with_context_cut(fields, amount)
    elif "content" not in fields and "text" in fields:
        text = msgspec.json.decode(fields["text"])
        fields["text"] = head(text, amount) if stage == "truncated" else head_and_tail(text, amount)
    elif stage == "cleared":
        fields["content"] = cleared(fields.get("content", b"null"), amount)
    elif stage == "lightened":
        fields["content"] = lightened(fields["content"])
    elif stage == "inputs_cleared":
        fields["content"] = _with_inputs(msgspec.json.decode(fields["content"]), lambda _: {})
    else:
        fields["content"] = _shortened(msgspec.json.decode(fields.get("content", b"null")), stage, amount)
    return msgspec.json.encode(fields)


def _shortened(content: Any, stage: Stage, chars: int) -> Any:
    if not isinstance(content, str | list):
        return content
    if stage == "truncated":
        return truncated(content, chars)
    return _with_inputs(squeezed(content, chars), partial(squeeze_value, chars=chars))


def _with_inputs(content: Any, edit: Callable[[Any], Any]) -> Any:
    """The content with the input of each call edited; an input is an object and stays one."""
    if not isinstance(content, list):
        return content
    return [
        {**block, "input": edit(block["input"])}
        if kind_of(block) == "tool_use" and isinstance(block.get("input"), dict)
        else block
        for block in content
    ]


def unbind(raw: bytes | Raw) -> bytes:
    """An answer without its thinking, which is valid only after the very messages it was made after."""
    fields: Fields = dict(fields_of(raw))
    content = msgspec.json.decode(fields["content"])
    kept = [block for block in content if kind_of(block) not in THOUGHTS]
    fields["content"] = kept or [{"type": "text", "text": TRUNCATED}]
    return msgspec.json.encode(fields)


def message(role: str, text: str) -> bytes:
    """A message of the proxy's own. A `system` role has its place only before an answer, so a user speaks."""
    said_by = "assistant" if role == "assistant" else "user"
    return msgspec.json.encode({"role": said_by, "content": [{"type": "text", "text": text}]})


def as_chat(raw: bytes | Raw) -> bytes:
    """The element as a chat message, for the text that a summary is made of."""
    try:
        fields = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return bytes(raw)
    if not isinstance(fields, dict):
        return msgspec.json.encode({"role": "user", "content": fields})
    if "role" not in fields:
        if fields.get("type") != "tool_result":
            return msgspec.json.encode({"role": "user", "content": [fields]})
        found = {"role": "tool", "tool_call_id": fields.get("tool_use_id"), "content": fields.get("content")}
        return msgspec.json.encode(found)
    content = fields.get("content")
    blocks = content if isinstance(content, list) else []
    calls = [
        {"id": block.get("id"), "function": {"name": block.get("name"), "arguments": block.get("input", {})}}
        for block in blocks
        if kind_of(block) == "tool_use"
    ]
    texts = [block for block in blocks if kind_of(block) not in _NOT_SHOWN] if blocks else content
    return msgspec.json.encode({"role": fields["role"], "content": texts, **({"tool_calls": calls} if calls else {})})


FORMAT = Format(view, digest, rewrite, message, join_text, None, unpin, unbind, canonical, as_chat)
