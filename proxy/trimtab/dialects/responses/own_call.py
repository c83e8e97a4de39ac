"""Calls of our own to a model of the Responses API: a question in chat's form, and the answer read as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

CACHED_FIELDS = ("instructions", "tools", "prompt_cache_key", "user", "service_tier")
"""As `Dialect.cached_fields`."""


def asked(chat: Mapping[str, Any], tokens: int) -> dict[str, Any]:
    """The body that asks what a chat body asks, for at most `tokens` tokens of output. Chat's messages are items too.
    The server does not keep the answer."""
    return {
        **{name: chat[name] for name in (*CACHED_FIELDS, "tool_choice") if name in chat},
        "model": chat["model"],
        "input": chat["messages"],
        "max_output_tokens": tokens,
        "stream": False,
        "store": False,
    }


class _Item(msgspec.Struct):
    type: str = ""
    content: list[Any] = []


class _Answer(msgspec.Struct):
    output: list[_Item]
    status: str = "completed"
    usage: dict[str, Any] | None = None
    error: Any = None


def answered(raw: bytes) -> bytes:
    """An answer in chat's form. Raises msgspec.MsgspecError for what is no answer."""
    answer = msgspec.json.decode(raw, type=_Answer)
    parts = [part for item in answer.output if item.type == "message" for part in item.content]
    calls: list[dict[str, Any]] = [{} for item in answer.output if item.type.endswith("_call")]
    usage = answer.usage or {}
    return msgspec.json.encode(
        {
            "choices": [
                {
                    "message": {"content": parts, "tool_calls": calls},
                    "finish_reason": "stop" if answer.status == "completed" else "length",
                    "error": answer.error,
                }
            ],
            "usage": {
                "prompt_tokens": usage.get("input_tokens"),
                "completion_tokens": usage.get("output_tokens"),
            },
        }
    )
