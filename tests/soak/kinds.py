"""What the soak sends, as a table: how often, what, how the upstream is to answer, and what must come back.

A check answers what is wrong with an answer, or nothing. So an error that was caused is expected, one that was not
is found.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.soak.upstream import MALFORMED, WORDS
from tests.support.conversations import agent_run, chat, prose

CHAT = "/v1/chat/completions"
_numbers = itertools.count()


@dataclass(frozen=True)
class Answer:
    """What a client got. `broken`: the connection ended before the answer did."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    broken: bool = False


Check = Callable[[Answer], str | None]


def _status(*expected: int, code: str = "") -> Check:
    def check(answer: Answer) -> str | None:
        if answer.status not in expected or answer.broken:
            return f"status {answer.status} {'broken off ' * answer.broken}{answer.body[:300]!r}"
        if code and msgspec.json.decode(answer.body)["error"]["code"] != code:
            return f"no {code}: {answer.body[:300]!r}"
        return None

    return check


def _whole(answer: Answer) -> str | None:
    return _status(200)(answer) or (None if b'"finish_reason":"stop"' in answer.body else "not the upstream's answer")


def _shaped(answer: Answer) -> str | None:
    edits = answer.headers.get("x-trimtab-edits", "")
    untouched = edits.count("=0") == edits.count("=")
    return _status(200)(answer) or ("was not shaped" if untouched else None)


def _streamed(answer: Answer) -> str | None:
    if wrong := _status(200)(answer):
        return wrong
    words = answer.body.count(b'"delta":{"content"')
    complete = answer.body.endswith(b"data: [DONE]\n\n") and words > 0 and words % len(WORDS) == 0
    return None if complete else f"an incomplete stream: {words} words, ends {answer.body[-80:]!r}"


def _shaped_stream(answer: Answer) -> str | None:
    return _streamed(answer) or (None if answer.body.startswith(b": trimtab {") else "was not shaped")


def _cut_stream(answer: Answer) -> str | None:
    """The upstream died in its stream: the client must hear of it, and not of an end."""
    if answer.status != 200:
        return f"status {answer.status}"
    heard = b'"error"' in answer.body.rpartition(b"data: ")[2]
    return None if heard and b"[DONE]" not in answer.body else f"ends {answer.body[-120:]!r}"


def _malformed(answer: Answer) -> str | None:
    return None if (answer.status, answer.body) == (200, MALFORMED) else f"{answer.status} {answer.body[:200]!r}"


def _waits(status: int) -> Check:
    def check(answer: Answer) -> str | None:
        kept = answer.headers.get("retry-after") == "7"
        return _status(status)(answer) or (None if kept else "the upstream's retry-after is lost")

    return check


@dataclass(frozen=True)
class Kind:
    """One kind of request. `leaves_s`: the client goes away after so many seconds, and expects nothing."""

    weight: int
    answer: str
    body: Callable[[], Any]
    check: Check
    path: str = CHAT
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    leaves_s: float | None = None


def _chat(messages: Callable[[], list[Any]], **fields: Any) -> Callable[[], dict[str, Any]]:
    def body() -> dict[str, Any]:
        unique = {"role": "system", "content": f"You are reader number {next(_numbers)}."}
        return {"model": "m", "messages": [unique, *messages()[1:]], **fields}

    return body


_short, _long = _chat(lambda: chat(2, 60)), _chat(lambda: agent_run(30))
_short_stream, _long_stream = _chat(lambda: chat(2, 60), stream=True), _chat(lambda: agent_run(30), stream=True)
_question = _chat(lambda: [None, {"role": "user", "content": prose(20_000)}])
_small_model = _chat(lambda: agent_run(12), model="small")


class Sessions:
    """Conversations that grow by one turn a request, far past the window, and then give way to new ones: what
    summaries are for."""

    def __init__(self, count: int = 6, turns: int = 60) -> None:
        self._lengths = [2 + i * turns // count for i in range(count)]
        self._topics = [next(_numbers) for _ in range(count)]
        self._turns, self._next = turns, itertools.cycle(range(count))

    def body(self) -> dict[str, Any]:
        which = next(self._next)
        length = self._lengths[which]
        messages = chat(length, 150)
        messages[1] = {"role": "user", "content": f"Let us talk about topic {self._topics[which]}."}
        self._lengths[which] = length + 1
        if length == self._turns:
            self._lengths[which], self._topics[which] = 2, next(_numbers)
        return {"model": "m", "messages": messages}


KINDS: dict[str, Kind] = {
    "plain": Kind(20, "whole", _short, _whole),
    "plain, slow": Kind(6, "slow", _short, _whole),
    "plain, gzip": Kind(3, "gzip", _short, _whole),
    "streaming": Kind(16, "stream", _short_stream, _streamed),
    "streaming, long": Kind(4, "long stream", _short_stream, _streamed),
    "streaming, split": Kind(3, "split stream", _short_stream, _streamed),
    "shaped": Kind(10, "whole", _long, _shaped),
    "shaped, streaming": Kind(8, "stream", _long_stream, _shaped_stream),
    "growing session": Kind(12, "whole", Sessions().body, _whole),
    "overflow, smaller try": Kind(2, "overflow", _small_model, _status(200)),
    "refused": Kind(3, "whole", _question, _status(400, code="context_length_exceeded")),
    "planned": Kind(2, "whole", _long, _status(200), "/v1/context/plan"),
    "bypassed": Kind(2, "whole", _long, _whole, headers={"x-trimtab-bypass": "true"}),
    "passed through": Kind(3, "echo", lambda: b"x" * 200_000, _status(200), "/v1/embeddings"),
    "passed through, GET": Kind(2, "echo", lambda: None, _status(200), "/v1/models", "GET"),
    "no JSON": Kind(1, "whole", lambda: b"{", _status(400)),
    "too large": Kind(1, "whole", lambda: b" " * (2 << 20), _status(413)),
    "unknown path": Kind(1, "whole", lambda: None, _status(404), "/nowhere", "GET"),
    "leaves before the first byte": Kind(3, "stall", _short, _status(), leaves_s=0.3),
    "leaves in the stream": Kind(3, "long stream", _short_stream, _status(), leaves_s=0.5),
    "leaves at once": Kind(1, "slow", _long, _status(), leaves_s=0.01),
    "upstream resets": Kind(2, "reset", _short, _status(502)),
    "upstream resets in the stream": Kind(2, "reset in stream", _short_stream, _cut_stream),
    "upstream closes in the stream": Kind(2, "closed in stream", _short_stream, _cut_stream),
    "upstream stalls": Kind(1, "stall", _short, _status(504)),
    "upstream stalls in the stream": Kind(1, "stall in stream", _short_stream, _cut_stream),
    "malformed stream": Kind(2, "malformed stream", _short_stream, _malformed),
    "upstream 400": Kind(1, "400", _short, _status(400)),
    "upstream 401": Kind(1, "401", _short, _status(401)),
    "upstream 404": Kind(1, "404", _short, _status(404)),
    "upstream 429": Kind(2, "429", _short, _waits(429)),
    "upstream 500": Kind(2, "500", _short, _status(500)),
    "upstream 503": Kind(2, "503", _short, _waits(503)),
}
