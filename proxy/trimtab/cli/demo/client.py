"""The demo's client: the real OpenAI SDK, which makes the recorded requests one after the other.

Like an agent's client it streams, asks for usage, and knows only the base URL.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import openai

from trimtab.cli.demo.recording import Recording
from trimtab.cli.demo.upstream import MODEL

_EDIT = re.compile(r"(\w+ed)=(\d+)")  # the stages; `extract` counts tokens


class Step(msgspec.Struct, frozen=True):
    """The outcome of one request. Tokens as the upstream counted them. `added_ms` is the time from sending the request
    to the head of its answer, minus the upstream's own."""

    number: int
    messages: int
    sent: int = 0
    cached: int = 0
    added_ms: float = 0.0
    edits: dict[str, int] = {}
    error: str = ""


class Client:
    """Replays one recording against one base URL; `max_tokens` is that of every request."""

    def __init__(self, base_url: str, recording: Recording, max_tokens: int) -> None:
        hooks = {"request": [self._mark_sent], "response": [self._mark_answered]}
        http = openai.DefaultHttpxClient(event_hooks=hooks, trust_env=False)
        self._openai = openai.OpenAI(base_url=base_url, api_key="demo", http_client=http, max_retries=0)
        self._recording, self._max_tokens = recording, max_tokens
        self._sent_at = self._took = 0.0

    def close(self) -> None:
        """Close the connections."""
        self._openai.close()

    def replay(self, steps: Iterable[tuple[int, int]]) -> Iterator[Step]:
        """Make the requests, each given as (number, length of the history in messages). A refusal is a step with an
        error."""
        for number, length in steps:
            try:
                yield self._ask(number, length)
            except openai.APIError as error:
                yield Step(number, length, error=error.message)

    def _ask(self, number: int, length: int) -> Step:
        answer = self._openai.chat.completions.with_raw_response.create(
            model=MODEL,
            messages=[],
            max_tokens=self._max_tokens,
            stream=True,
            stream_options={"include_usage": True},
            extra_body=self._history(length),
        )
        usage = None
        for chunk in answer.parse():
            usage = chunk.usage or usage
        inner = float(answer.headers.get("openai-processing-ms", "0"))
        edits = {k: int(v) for k, v in _EDIT.findall(answer.headers.get("x-trimtab-edits", "")) if int(v)}
        details = usage.prompt_tokens_details if usage else None
        return Step(
            number=number,
            messages=length,
            sent=usage.prompt_tokens if usage else 0,
            cached=(details.cached_tokens or 0) if details else 0,
            added_ms=self._took * 1e3 - inner,
            edits=edits,
        )

    def _history(self, length: int) -> dict[str, Any]:
        """Tools and the first `length` messages. They go in `extra_body`, because the SDK checks every value of
        `messages` against its types at each call, which takes most of a second for a long history."""
        tools = {"tools": self._recording.tools} if self._recording.tools else {}
        return {"messages": self._recording.messages[:length], **tools}

    def _mark_sent(self, _: Any) -> None:
        self._sent_at = time.perf_counter()

    def _mark_answered(self, _: Any) -> None:
        self._took = time.perf_counter() - self._sent_at
