"""Summary models for tests: each takes a request, gives a completion, and remembers what it was asked. One that is
`held` answers once its `gate` is set.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec

from trimtab.context.estimate.tokens import text_tokens
from trimtab.context.plan.wanted import SummaryWanted, chain
from trimtab.summaries.completion import Completion, CompletionRequest

FACT = re.compile(r"FACT-\d{5}")
OPENING = "The user wants the report finished; these are the facts that were stated so far: "


class Keeper:
    """Keeps every numbered fact it reads, and nothing else."""

    def __init__(self, *, held: bool = False) -> None:
        self.gate = _gate(held)
        self.asked: list[CompletionRequest] = []

    async def __call__(self, request: CompletionRequest) -> Completion:
        self.asked.append(request)
        await self.gate.wait()
        facts = sorted(set(FACT.findall(self.read(-1))))
        text = OPENING + " ".join(facts)
        return Completion(text, prompt_tokens=text_tokens(self.read(-1)), completion_tokens=text_tokens(text))

    def read(self, call: int) -> str:
        """All text of one request."""
        return "\n".join(decoded(m)["content"] or "" for m in self.asked[call].messages)


class Fixed:
    """Always the same answer, or the same error."""

    def __init__(self, answer: Completion | Exception, *, held: bool = False) -> None:
        self.answer = answer
        self.gate = _gate(held)
        self.calls = 0

    async def __call__(self, request: CompletionRequest) -> Completion:
        self.calls += 1
        await self.gate.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def _gate(held: bool) -> asyncio.Event:
    gate = asyncio.Event()
    if not held:
        gate.set()
    return gate


def decoded(raw: bytes) -> dict[str, Any]:
    return msgspec.json.decode(raw, type=dict[str, Any])


def message(role: str, content: Any, **fields: Any) -> bytes:
    return msgspec.json.encode({"role": role, "content": content, **fields})


FILLER = "We looked at the quarterly numbers again and compared them with what was planned last year. " * 6


def conversation(turns: int, filler: str = FILLER) -> list[bytes]:
    """A system message, then `turns` of question and answer, each with a numbered fact."""
    messages = [message("system", "You are a helpful assistant.")]
    for n in range(turns):
        messages += [
            message("user", f"FACT-{2 * n:05d} {filler}"),
            message("assistant", f"FACT-{2 * n + 1:05d} {filler}"),
        ]
    return messages


def want(messages: list[bytes], segments: int, size: int = 4, **fields: Any) -> SummaryWanted:
    """The first `segments` segments of `size` messages each, after the system message."""
    spans = tuple((1 + i * size, 1 + (i + 1) * size) for i in range(segments))
    return SummaryWanted(spans, chain(messages, spans), **{"max_tokens": 400, **fields})
