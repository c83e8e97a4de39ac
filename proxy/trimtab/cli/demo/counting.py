"""True token counts, and the rules for tool calls that a strict upstream enforces.

Counts are o200k, by the real tokenizer, of what a chat template renders (text, names and arguments of calls), plus 4
for each message. Each distinct message is counted once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import bpe_openai  # type: ignore[import-untyped]
import msgspec
from msgspec import Raw

MESSAGE_OVERHEAD = 4


class Counted(msgspec.Struct, frozen=True):
    """What the upstream knows of one message or tool. `raw` is its JSON; `calls` are the ids of its tool calls,
    `answers` is the id of the call that it is the result of."""

    raw: bytes
    tokens: int
    role: str = ""
    calls: tuple[str, ...] = ()
    answers: str | None = None


class Counter200k:
    """Counts messages, and remembers those it has seen."""

    def __init__(self) -> None:
        self._encoding = bpe_openai.get_encoding("o200k_base")
        self._known: dict[bytes, Counted] = {}

    def tokens(self, text: str) -> int:
        """Tokens of a text."""
        return len(self._encoding.encode_ordinary(text))

    def read(self, values: Iterable[Raw]) -> list[Counted]:
        """Count messages or tools, given as JSON."""
        return [self._known.get(raw) or self._read(raw) for raw in map(bytes, values)]

    def _read(self, raw: bytes) -> Counted:
        value = msgspec.json.decode(raw)
        text = rendered(value) if "role" in value else raw.decode()
        calls = value.get("tool_calls") or ()
        counted = Counted(
            raw=raw,
            tokens=self.tokens(text) + MESSAGE_OVERHEAD,
            role=value.get("role", ""),
            calls=tuple(call["id"] for call in calls),
            answers=value.get("tool_call_id") if value.get("role") == "tool" else None,
        )
        self._known[raw] = counted
        return counted


def growing(counter: Counter200k, messages: Sequence[Any], tools: Sequence[Any]) -> list[int]:
    """Tokens of all tools and the first n messages, for n = 0, 1, 2, …"""
    sizes = [sum(counted.tokens for counted in counter.read(_raw(tools)))]
    for counted in counter.read(_raw(messages)):
        sizes.append(sizes[-1] + counted.tokens)
    return sizes


def _raw(values: Sequence[Any]) -> list[Raw]:
    return [Raw(msgspec.json.encode(value)) for value in values]


def rendered(message: dict[str, Any]) -> str:
    """A message as a chat template renders it: its text, and the names and arguments of its calls."""
    content = message.get("content") or ""
    texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
    for call in message.get("tool_calls") or ():
        texts.append(call["function"]["name"] + call["function"]["arguments"])
    return "\n".join(texts)


def broken_rule(messages: Sequence[Counted]) -> str | None:
    """OpenAI's own message when tool calls and results do not pair up, or None."""
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        if message.answers is not None:
            return (
                "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
                "with 'tool_calls'."
            )
        given: Counter[str] = Counter()
        while message.calls and at < len(messages) and (answered := messages[at].answers) is not None:
            given[answered] += 1
            at += 1
        if given != Counter(message.calls):
            missing = ", ".join(Counter(message.calls) - given) or "none"
            return (
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. The following tool_call_ids did not have response messages: {missing}"
            )
    return None
