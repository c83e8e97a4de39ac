"""What a strict server checks of a chat with Anthropic's blocks: each result right after its call, none missing."""

from __future__ import annotations

from typing import Any


def broken(messages: list[Any]) -> str:
    """What is wrong with the pairs of calls and results in these messages; "" for nothing. Calls are `tool_calls` or
    `tool_use` blocks, results are tool messages or `tool_result` blocks; those of one answer follow it at once."""
    waiting: list[str] = []
    for i, message in enumerate(messages):
        results = _results(message)
        for id in results:
            if id not in waiting:
                return f"message {i}: the result {id!r} does not follow its call"
            waiting.remove(id)
        if not results and waiting:
            return f"message {i}: the calls {waiting} have no result"
        if message["role"] == "assistant":
            waiting = _calls(message)
        if message.get("content") in ("", []):
            return f"message {i} is empty"
    return f"the calls {waiting} have no result" if waiting else ""


def _blocks(message: Any, kind: str) -> list[Any]:
    content = message.get("content")
    return [block for block in content if block.get("type") == kind] if isinstance(content, list) else []


def _calls(message: Any) -> list[str]:
    return [call["id"] for call in [*(message.get("tool_calls") or ()), *_blocks(message, "tool_use")]]


def _results(message: Any) -> list[str]:
    own = [message["tool_call_id"]] if message["role"] == "tool" else []
    return [*own, *(block["tool_use_id"] for block in _blocks(message, "tool_result"))]
