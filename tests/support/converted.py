"""A chat request in the two other dialects, as their clients would send it: the same texts, calls and results.

The system message becomes `system` in a Messages request; results that follow one another come in one user message.
With `thinks` each answer begins with its thinking: encrypted reasoning, or a signed thinking block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

Message = dict[str, Any]
ENCRYPTED = "gAAAA" + "x" * 1_095
"""Encrypted reasoning, as far as anyone but its model can tell; about 43 tokens."""

_SYSTEM = ("system", "developer")


def as_responses(request: Message, *, thinks: bool = False) -> Message:
    """The body of a request to `/v1/responses`."""
    fields = {name: value for name, value in request.items() if name not in ("messages", "tools", "max_tokens")}
    if "max_tokens" in request:
        fields["max_output_tokens"] = request["max_tokens"]
    if tools := request.get("tools"):
        fields["tools"] = [{"type": "function", **tool.get("function", tool)} for tool in tools]
    return {**fields, "input": [*items(request["messages"], thinks=thinks)]}


def items(messages: Sequence[Message], *, thinks: bool = False) -> Iterator[Message]:
    """The messages as items."""
    for n, message in enumerate(messages):
        role = message["role"]
        if role in ("tool", "function"):
            yield {"type": "function_call_output", "call_id": _id(message), "output": _item_parts(message, "input")}
            continue
        if role == "assistant" and thinks:
            yield {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": ENCRYPTED}
        if role != "assistant" or message.get("content") or not _calls(message):
            parts = _item_parts(message, "output" if role == "assistant" else "input")
            content = [{"type": f"{'output' if role == 'assistant' else 'input'}_text", "text": parts}]
            yield {"type": "message", "role": role, "content": content if isinstance(parts, str) else parts}
        for call in _calls(message):
            made = call["function"]
            given = made.get("arguments") or "{}"
            yield {"type": "function_call", "call_id": _id(call), "name": made.get("name") or "", "arguments": given}


def as_messages(request: Message, *, thinks: bool = False) -> Message:
    """The body of a request to `/v1/messages`."""
    fields = {name: value for name, value in request.items() if name not in ("messages", "tools")}
    fields.setdefault("max_tokens", 1_000)
    leading = [m for m in request["messages"] if m["role"] in _SYSTEM]
    if leading:
        fields["system"] = [block for message in leading for block in _blocks(message)]
    if tools := request.get("tools"):
        functions = [tool.get("function", tool) for tool in tools]
        fields["tools"] = [
            {
                "name": each.get("name", ""),
                "description": each.get("description", ""),
                "input_schema": each.get("parameters") or {"type": "object"},
            }
            for each in functions
        ]
    return {**fields, "messages": [*turns(without_system(request["messages"]), thinks=thinks)]}


def without_system(messages: Sequence[Message]) -> list[Message]:
    """What is a message in a Messages request."""
    return [message for message in messages if message["role"] not in _SYSTEM]


def turns(messages: Sequence[Message], *, thinks: bool = False) -> Iterator[Message]:
    """The messages as those of the Messages API."""
    results: list[Message] = []
    for n, message in enumerate(messages):
        if message["role"] in ("tool", "function"):
            results.append({"type": "tool_result", "tool_use_id": _id(message), "content": _result(message)})
            continue
        if results:
            yield {"role": "user", "content": results}
            results = []
        blocks = _blocks(message)
        if message["role"] == "assistant":
            if thinks and messages[n - 1]["role"] != "assistant":
                blocks = [{"type": "thinking", "thinking": f"Step {n} needs a look.", "signature": f"sig_{n}"}, *blocks]
            blocks += [_use(call) for call in _calls(message)]
        yield {"role": message["role"], "content": blocks or [{"type": "text", "text": "(nothing)"}]}
    if results:
        yield {"role": "user", "content": results}


def _result(message: Message) -> Any:
    content = message.get("content")
    return _blocks(message) if isinstance(content, list) else content or ""


def _use(call: Message) -> Message:
    """The call, its arguments as an object."""
    made = call["function"]
    try:
        given = msgspec.json.decode(made.get("arguments") or "{}")
    except msgspec.DecodeError:
        given = {"arguments": made["arguments"]}
    given = given if isinstance(given, dict) else {"arguments": given}
    return {"type": "tool_use", "id": _id(call), "name": made.get("name") or "", "input": given}


def _calls(message: Message) -> list[Message]:
    legacy = message.get("function_call")
    return message.get("tool_calls") or ([{"id": "", "function": legacy}] if legacy else [])


def _id(message: Message) -> str:
    return str(message.get("tool_call_id") or message.get("id") or "call_legacy")


def _item_parts(message: Message, side: str) -> Any:
    content = message.get("content")
    if not isinstance(content, list):
        return content or ""
    return [_item_part(part, side) for part in content]


def _item_part(part: Message, side: str) -> Message:
    if part.get("type") == "image_url":
        return {"type": "input_image", "image_url": part["image_url"]["url"]}
    return {"type": f"{side}_text", "text": part.get("text", "")}


def _blocks(message: Message) -> list[Message]:
    """Its content as blocks; no block is empty."""
    content = message.get("content")
    if not isinstance(content, list):
        return [{"type": "text", "text": content}] if content else []
    return [_block(part) for part in content if part.get("text", "image")]


def _block(part: Message) -> Message:
    if part.get("type") != "image_url":
        return {"type": "text", "text": part.get("text", "")}
    url = part["image_url"]["url"]
    if not url.startswith("data:"):
        return {"type": "image", "source": {"type": "url", "url": url}}
    kind, data = url.removeprefix("data:").split(";base64,")
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
