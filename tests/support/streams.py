"""Streams as upstreams really send them, and as they really fail."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.scripted import CLOSE, RESET, STALL, Pause, Step, chunk

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
BEGUN = HEAD + b"\r\n"
END = b"0\r\n\r\n"
TOKEN = '{"id":"c","choices":[{"index":0,"delta":{"content":"北 👩‍👩‍👧‍👦 é"}}]}'.encode()
USAGE = b'{"id":"c","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}'
EVENTS = b"data: " + TOKEN + b"\n\ndata: " + USAGE + b"\n\ndata: [DONE]\n\n"
BIG = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"x" * (1 << 20) + b'"}}]}\n\n'

STREAMS = {
    "as everyone sends it": EVENTS,
    "CRLF": EVENTS.replace(b"\n", b"\r\n"),
    "bare CR": EVENTS.replace(b"\n", b"\r"),
    "no space after the colon": EVENTS.replace(b"data: ", b"data:"),
    "comments and pings between": b": ping\n\n" + EVENTS.replace(b"data: [", b": OPENROUTER PROCESSING\n\ndata: ["),
    "named events, ids and retry": b"retry: 10\n\nevent: x\nid: 7\ndata: {}\n\n" + EVENTS,
    "data over several lines": b'data: {"choices":\ndata: []}\n\n' + EVENTS,
    "a byte order mark": b"\xef\xbb\xbf" + EVENTS,
    "no [DONE]": b"data: " + TOKEN + b"\n\n",
    "no blank line at the end": EVENTS.rstrip(b"\n"),
    "an event cut off at the end": EVENTS + b'data: {"choices":[{"ind',
    "bytes after [DONE]": EVENTS + b"data: more\n\n\n\n\n",
    "values that are no chunks": b'data: null\n\ndata: 5\n\ndata: "x"\n\ndata: [1]\n\ndata: {"usage":{}}\n\n',
    "usage that is none": b'data: {"choices":[],"usage":{"prompt_tokens":"many","completion_tokens":-1}}\n\n',
    "not JSON": b"data: {{{\n\ndata: \xff\xfe\n\ndata:\n\ndata\n\n",
    "unknown events": b'event: response.created\ndata: {"type":"response.created","x":1}\n\n' + EVENTS,
    "an error in a 200": b'data: {"choices":[],"error":{"code":502,"message":"busy"}}\n\ndata: [DONE]\n\n',
    "events of 1 MB": BIG + BIG,
    "one newline between": EVENTS.replace(b"\n\n", b"\n"),
    "nothing at all": b"",
    "deeply nested": b"data: " + b"[" * 100_000 + b"]" * 100_000 + b"\n\n",
    "the words of an error": b'data: {"choices":[{"index":0,"delta":{"content":"error"}}]}\n\ndata: [DONE]\n\n',
}  # fmt: skip


def streamed(body: bytes, split: int) -> list[Step]:
    """A stream in chunks of `split` bytes (0: one), several chunks to a write where there would be thousands."""
    pieces = [body[i : i + split] for i in range(0, len(body), split)] if split else [body] * bool(body)
    chunks = [chunk(piece) for piece in pieces]
    packed = max(1, len(chunks) // 500)
    return [BEGUN, *(b"".join(chunks[i : i + packed]) for i in range(0, len(chunks), packed)), END]


@dataclass(frozen=True)
class Broken:
    """A script, and the status and code the client gets: as a whole answer, or as the last event."""

    script: list[Step]
    status: int
    code: str
    kept: bytes = b""


FIRST = chunk(b"data: " + TOKEN + b"\n\n")
GONE, LATE = "upstream_unreachable", "upstream_timeout"
BROKEN = {
    "reset before the headers": Broken([RESET], 502, GONE),
    "closed before the headers": Broken([CLOSE], 502, GONE),
    "closed within the headers": Broken([HEAD[:30], CLOSE], 502, GONE),
    "reset after the headers": Broken([BEGUN, RESET], 502, GONE),
    "closed after the headers": Broken([BEGUN, CLOSE], 502, GONE),
    "reset after an event": Broken([BEGUN, FIRST, Pause(0.05), RESET], 200, GONE, TOKEN),
    "closed after an event": Broken([BEGUN, FIRST, CLOSE], 200, GONE, TOKEN),
    "reset within a chunk": Broken([BEGUN, FIRST, b"ff\r\ndata: {", Pause(0.05), RESET], 200, GONE, TOKEN),
    "reset within a character": Broken(
        [BEGUN, FIRST, chunk(TOKEN[:52]), Pause(0.05), RESET], 200, GONE, TOKEN
    ),
    "a chunk size that is none": Broken([BEGUN, FIRST, Pause(0.05), b"zz\r\n"], 200, GONE, TOKEN),
    "no HTTP": Broken([b"SSH-2.0-OpenSSH_9.2\r\n\r\n", CLOSE], 502, GONE),
    "two lengths": Broken([b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx", CLOSE], 502, GONE),
    "silence before the headers": Broken([STALL], 504, LATE),
    "silence after the headers": Broken([BEGUN, STALL], 504, LATE),
    "silence after an event": Broken([BEGUN, FIRST, STALL], 200, LATE, TOKEN),
    "silence within an event": Broken([BEGUN, FIRST, chunk(b'data: {"a'), STALL], 200, LATE, TOKEN),
}  # fmt: skip
