"""The soak's upstream: each request says in the header `x-soak` how it is to be answered, well or badly. It keeps
nothing of what it is sent. Calls of the summary model carry no such header: every tenth of them fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import itertools
from collections.abc import Callable, Sequence

import msgspec

from tests.support.scripted import (
    CLOSE,
    RESET,
    STALL,
    Pause,
    Received,
    Step,
    json_reply,
    play,
    receive,
    reply,
    sse_reply,
)

SUMMARIES = "summarizer"  # the name of the summary model
ANSWER = "Noted, and on to the next step."
WORDS = ANSWER.split()
SUMMARY = "The user asks one question after the other and wants the first one again in the end. " * 4


def _completion(received: Received, text: str = ANSWER) -> dict[str, object]:
    size = len(received.body) // 5
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": size, "completion_tokens": 9, "total_tokens": size + 9},
    }


def events(pause: float, repeat: int = 1) -> list[bytes | Pause]:
    """A stream of the answer, word by word."""
    found: list[bytes | Pause] = []
    for word in WORDS * repeat:
        delta = {"choices": [{"index": 0, "delta": {"content": word + " "}, "finish_reason": None}]}
        found += [msgspec.json.encode(delta), Pause(pause)]
    return found


MALFORMED = b'data: {not json\r\n\r\n: a comment\ndata:{"choices":[]}\n\nevent: odd\ndata: \xff\xfe\n\nid: 3\n'
_STREAM_HEADERS = [(b"content-type", b"text/event-stream")]
_OVERFLOW = {
    "error": {
        "message": "This model's maximum context length is 5000 tokens. However, you requested 9000 tokens.",
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    }
}


def error(status: int) -> list[Step]:
    headers = [(b"retry-after", b"7")] if status in (429, 503) else []
    return json_reply({"error": {"message": f"as asked: {status}", "type": "scripted", "code": None}}, status, headers)


ANSWERS: dict[str, Callable[[Received], Sequence[Step]]] = {
    "whole": lambda r: json_reply(_completion(r)),
    "slow": lambda r: [Pause(0.4), *json_reply(_completion(r))],
    "gzip": lambda r: json_reply(_completion(r), gzip=True),
    "stream": lambda r: sse_reply(*events(0.02)),
    "long stream": lambda r: sse_reply(*events(0.05, repeat=12)),
    "split stream": lambda r: sse_reply(*events(0.0), split=5),
    "echo": lambda r: json_reply({"size": len(r.body)}),
    "reset": lambda r: [RESET],
    "reset in stream": lambda r: sse_reply(*events(0.01), RESET),
    "closed in stream": lambda r: sse_reply(*events(0.01), CLOSE),
    "stall": lambda r: [STALL],
    "stall in stream": lambda r: sse_reply(*events(0.0), STALL),
    "malformed stream": lambda r: reply(200, MALFORMED, _STREAM_HEADERS, chunked=True, split=3),
    "broken gzip": lambda r: reply(200, gzip.compress(b"{}")[:-9], [(b"content-encoding", b"gzip")]),
    **{str(status): lambda r, status=status: error(status) for status in (400, 401, 404, 429, 500, 503)},  # type: ignore[misc]
}


class SoakUpstream:
    """The server: `async with SoakUpstream() as upstream`."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._summaries = itertools.count(1)
        self._overflowed: set[bytes] = set()
        self.served = 0

    async def __aenter__(self) -> SoakUpstream:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=1 << 26, backlog=1024)
        self.base_url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def connections(self) -> int:
        return len(self._tasks)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await play(self._script(await receive(reader)), reader, writer):
                self.served += 1
        writer.close()

    def _script(self, received: Received) -> Sequence[Step]:
        # A summary call carries the headers of the client's own request, so its model is looked at first.
        if b'"model":"%s"' % SUMMARIES.encode() in received.body:
            return self._summary(received)
        asked = (received.header(b"x-soak") or b"").decode()
        if asked == "overflow":
            return self._overflow(received)
        if asked:
            return ANSWERS[asked](received)
        return ANSWERS["echo"](received)

    def _overflow(self, received: Received) -> Sequence[Step]:
        """Refuse each request once, as too long; its smaller try is answered."""
        name = received.header(b"x-soak-name") or b""
        if name in self._overflowed:
            self._overflowed.discard(name)
            return json_reply(_completion(received))
        self._overflowed.add(name)
        return json_reply(_OVERFLOW, 400)

    def _summary(self, received: Received) -> Sequence[Step]:
        faults = {3: error(500), 5: [STALL], 7: [RESET], 9: error(429)}
        n = next(self._summaries) % 40
        return faults.get(n) or [Pause(0.1), *json_reply(_completion(received, SUMMARY))]
