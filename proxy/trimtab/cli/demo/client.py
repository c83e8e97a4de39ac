"""The demo's client: the real OpenAI SDK, which makes the recorded requests one after the other.

Like an agent it streams, asks for usage, and knows nothing of the proxy but its address.
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

_EDIT = re.compile(r"(\w+)=(\d+)")


class Step(msgspec.Struct, frozen=True):
    """What came of one request. Tokens as the upstream counted them; `added_ms` is the time between sending
    the request and the head of its answer, less the upstream's own."""

    number: int
    messages: int
    sent: int = 0
    cached: int = 0
    added_ms: float = 0.0
    edits: dict[str, int] = {}
    error: str = ""


class Client:
    """One conversation against one base URL."""

    def __init__(self, base_url: str, recording: Recording, max_tokens: int) -> None:
        hooks = {"request": [self._leaves], "response": [self._arrives]}
        http = openai.DefaultHttpxClient(event_hooks=hooks, trust_env=False)
        self._openai = openai.OpenAI(base_url=base_url, api_key="demo", http_client=http, max_retries=0)
        self._recording, self._max_tokens = recording, max_tokens
        self._left_at = self._took = 0.0

    def close(self) -> None:
        self._openai.close()

    def replay(self, steps: Iterable[tuple[int, int]]) -> Iterator[Step]:
        """Make the requests: (number, messages of the history) each. A refusal is a step with an error."""
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
        """Tools and the first `length` messages. As `extra_body`, because what is given as `messages` the SDK
        walks value by value against its types at every call: with a long history most of a second."""
        tools = {"tools": self._recording.tools} if self._recording.tools else {}
        return {"messages": self._recording.messages[:length], **tools}

    def _leaves(self, _: Any) -> None:
        self._left_at = time.perf_counter()

    def _arrives(self, _: Any) -> None:
        self._took = time.perf_counter() - self._left_at
