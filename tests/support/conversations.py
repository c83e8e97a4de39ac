"""Conversations of a known size for tests of the running proxy."""

from __future__ import annotations

from typing import Any

Message = dict[str, Any]

WORDS = (
    "the proxy keeps what matters and clears what can be had again from the tool that made it".split()  # noqa: SIM905
)


def prose(tokens: int, seed: int = 0) -> str:
    """English of about `tokens` tokens (these words are one token each)."""
    return " ".join(WORDS[(i * 7 + seed) % len(WORDS)] for i in range(tokens))


def cycle(n: int, tokens: int) -> list[Message]:
    """One tool call and its result of about `tokens` tokens."""
    call = {"id": f"call_{n}", "type": "function", "function": {"name": "read", "arguments": f'{{"page":{n}}}'}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{n}", "content": f"page {n}: {prose(tokens, n)}"},
    ]


def agent_run(cycles: int, tokens: int = 500) -> list[Message]:
    """The sub-agent shape: system prompt, one task, and nothing but tool cycles."""
    messages: list[Message] = [
        {"role": "system", "content": "You are a careful reader."},
        {"role": "user", "content": "Read every page and tell me what they say."},
    ]
    for n in range(cycles):
        messages += cycle(n, tokens)
    return messages


def chat(turns: int, tokens: int = 300) -> list[Message]:
    """A conversation of questions and answers that ends with a question."""
    messages: list[Message] = [{"role": "system", "content": "You answer."}]
    for n in range(turns):
        messages.append({"role": "user", "content": f"Question {n}: {prose(tokens, n)}?"})
        messages.append({"role": "assistant", "content": f"Answer {n}: {prose(tokens, n + 3)}."})
    return [*messages, {"role": "user", "content": "And what was the first question?"}]
