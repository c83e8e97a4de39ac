"""Calls of our own to a model of the Messages API: a question in chat's form, and the answer read as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

VERSION = (b"anthropic-version", b"2023-06-01")
"""The header without which Anthropic refuses a request; clients send their own."""


def asked(chat: Mapping[str, Any], tokens: int) -> dict[str, Any]:
    """The body that asks what a chat body asks, for at most `tokens` tokens of output."""
    messages = [msgspec.json.decode(raw) for raw in chat["messages"]]
    system = [str(each["content"]) for each in messages if each["role"] == "system"]
    return {
        "model": chat["model"],
        "system": "\n\n".join(system),
        "messages": [each for each in messages if each["role"] != "system"],
        "max_tokens": tokens,
        "stream": False,
    }


class _Answer(msgspec.Struct):
    content: list[dict[str, Any]]
    stop_reason: str | None = None
    usage: dict[str, Any] | None = None


def answered(raw: bytes) -> bytes:
    """An answer in chat's form. Raises msgspec.MsgspecError for what is no answer."""
    answer = msgspec.json.decode(raw, type=_Answer)
    texts = [block for block in answer.content if block.get("type") == "text"]
    calls: list[dict[str, Any]] = [{} for block in answer.content if block.get("type") == "tool_use"]
    usage = answer.usage or {}
    return msgspec.json.encode(
        {
            "choices": [
                {
                    "message": {"content": texts, "tool_calls": calls},
                    "finish_reason": "stop" if answer.stop_reason in ("end_turn", "stop_sequence") else "length",
                }
            ],
            "usage": {
                "prompt_tokens": usage.get("input_tokens"),
                "completion_tokens": usage.get("output_tokens"),
            },
        }
    )
