"""The upstream of a benchmark: a process of its own that does next to nothing for a request.

    python -m tests.bench.upstream PORT

One `asyncio.Protocol` on uvloop: it counts a body's bytes instead of keeping them and answers with bytes made
beforehand, so that what is measured is what stands before it. A body with `"stream":true` in its first bytes gets a
paced stream, one event each `PACE_S`; the header `x-bench-wait` holds an answer back for that many milliseconds.
Usage is stated as a real model would state it, in streams when asked: about a token for four bytes received.
"""

from __future__ import annotations

import asyncio
import sys

import uvloop

EVENTS = 250  # of one stream
PACE_S = 0.02  # seconds between two events: 50 tokens a second, a usual model's speed
EVENT = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,'
    b'"delta":{"content":" hello"},"logprobs":null,"finish_reason":null}]}\n\n'
)
_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_HEAD = b"HTTP/1.1 %d OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
_ANSWER = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":'
    b'{"role":"assistant","content":"Hello."},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,'
    b'"completion_tokens":2,"total_tokens":%d}}'
)
_USAGE = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],'
    b'"usage":{"prompt_tokens":%d,"completion_tokens":250}}\n\n'
)
_START = 4096  # bytes of a body that are looked at
_MISSING = b'{"error":{"message":"not here","type":"invalid_request_error","param":null,"code":null}}'


class Upstream(asyncio.Protocol):
    """One connection; requests on it come one after the other."""

    def __init__(self) -> None:
        self._buffer = b""
        self._head = b""
        self._start = b""  # of the body: enough to see whether a stream is wanted
        self._size = self._missing = 0
        self._chunked = False
        self._paced: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def connection_lost(self, _: Exception | None) -> None:
        if self._paced is not None:
            self._paced.cancel()

    def data_received(self, data: bytes) -> None:
        if not self._head:
            self._buffer += data
            head, blank, data = self._buffer.partition(b"\r\n\r\n")
            if not blank:
                return
            self._begin(head.lower())
        if len(self._start) < _START:
            self._start += data[:_START]
        self._size += len(data)
        self._missing -= len(data)
        if data.endswith(b"0\r\n\r\n") if self._chunked else self._missing <= 0:
            self._end()

    def _begin(self, head: bytes) -> None:
        self._buffer, self._head, self._start, self._size = b"", head, b"", 0
        self._chunked = b"transfer-encoding: chunked" in head
        self._missing = int(_value(head, b"content-length") or 0)

    def _end(self) -> None:
        head, self._head = self._head, b""
        if head.startswith(b"post") and b'"stream":true' in self._start:
            self._transport.write(_STREAM)
            self._event(EVENTS, _USAGE % (self._size // 4) if b'"include_usage":true' in self._start else b"")
            return
        wait = int(_value(head, b"x-bench-wait") or 0)
        if wait:
            self._paced = asyncio.get_running_loop().call_later(wait / 1000, self._answer, head, self._size)
        else:
            self._answer(head, self._size)

    def _answer(self, head: bytes, size: int) -> None:
        tokens = size // 4
        found = head.startswith(b"post")
        body = _ANSWER % (tokens, tokens + 2) if found else _MISSING
        self._transport.write(_HEAD % (200 if found else 404, len(body)) + body)

    def _event(self, left: int, usage: bytes) -> None:
        """One event of a stream, and the next in a moment; after the last the usage, if there is one."""
        if self._transport.is_closing():
            return
        if left:
            self._transport.write(b"%x\r\n%b\r\n" % (len(EVENT), EVENT))
            self._paced = asyncio.get_running_loop().call_later(PACE_S, self._event, left - 1, usage)
        else:
            end = usage + b"data: [DONE]\n\n"
            self._transport.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(end), end))


def _value(head: bytes, name: bytes) -> bytes:
    _, found, rest = head.partition(b"\r\n" + name + b":")
    return rest.partition(b"\r\n")[0].strip() if found else b""


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
