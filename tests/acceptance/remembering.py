"""Conversations with numbered facts, and an upstream that is also their summary model: whatever is sent to it can be
checked against what the conversation holds.

A stale or foreign summary shows as a fact too many, a lost one as a fact too few.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tests.support.chat import COMPLETION
from tests.support.conversations import Message, prose
from tests.support.scripted import Received, Step, json_reply

FACT = re.compile(r"FACT-\d{5}")
OPENING = "The user wants the work finished; these are the facts that were stated in the conversation so far: "
WINDOW = '[models."*"]\ncontext_size = 8192\nmax_output_tokens = 1024\n'
COMPACTION = '[compaction]\nmodel = "summarizer"\nmax_summary_tokens = 500\nsecret = "test"\n'

Script = Callable[[Received], Sequence[Step]]


def facts(text: str | bytes) -> set[str]:
    return set(FACT.findall(text.decode() if isinstance(text, bytes) else text))


def talk(turns: int, first: int = 0, tokens: int = 300) -> list[Message]:
    """Questions and answers, each with a fact of its own, numbered from `first`."""
    messages: list[Message] = [{"role": "system", "content": "You answer."}]
    for n in range(turns):
        for k, role in enumerate(("user", "assistant")):
            number = first + 2 * n + k
            messages.append({"role": role, "content": f"FACT-{number:05d} {prose(tokens, number)}."})
    return [*messages, {"role": "user", "content": "What comes next?"}]


def answered(text: str | None, finish: str = "stop", **message: Any) -> list[Step]:
    said = {"role": "assistant", "content": text, **message}
    return json_reply({**COMPLETION, "choices": [{"index": 0, "message": said, "finish_reason": finish}]})


def keeping(received: Received) -> list[Step]:
    """A summary that keeps each fact it reads."""
    return answered(OPENING + " ".join(sorted(facts(received.body))))


class Both:
    """The model of the conversation, and the model named `summarizer`, which answers by `summary`."""

    def __init__(self, summary: Script = keeping) -> None:
        self.summary = summary
        self.chats: list[Received] = []
        self.summaries: list[Received] = []

    def __call__(self, received: Received) -> Sequence[Step]:
        if received.json()["model"] == "summarizer":
            self.summaries.append(received)
            return self.summary(received)
        self.chats.append(received)
        return json_reply(COMPLETION)

    @property
    def last(self) -> bytes:
        """The body of the newest request of the conversation, as it reached the model."""
        return self.chats[-1].body


def asking(messages: Sequence[Message], **fields: Any) -> bytes:
    return msgspec.json.encode({"model": "m", "messages": messages, **fields})
