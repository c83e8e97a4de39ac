"""The answer's way back: every byte as it came, and what is read beside the path. From a real upstream, to a client
that keeps each write."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.exchange.requests import Kept, shaping
from tests.support.conversations import agent_run, chat
from tests.support.scripted import CLOSE, Headers, Script, ScriptedUpstream, chunk, json_reply, reply, sse_reply
from trimtab.errors import UpstreamUnreachable
from trimtab.exchange.notes import Notes
from trimtab.exchange.relay import ERROR_LIMIT, WHOLE_LIMIT, Relay, Verdict, inspect, readable
from trimtab.exchange.shape import Shaping
from trimtab.telemetry import Usage
from trimtab.upstream.client import Client
from trimtab.upstream.settings import UpstreamSettings

pytestmark = pytest.mark.anyio

OVERFLOW = {"error": {"message": "maximum context length is 4096 tokens", "code": "context_length_exceeded"}}
ANSWER = {"id": "c", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
EVENT = b'{"id":"c","object":"x","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"a"}}]}'
USAGE = b'{"id":"c","choices":[],"usage":{"prompt_tokens":40,"completion_tokens":2}}'


@contextlib.asynccontextmanager
async def inspected(script: Script) -> AsyncIterator[Verdict]:
    client = Client()
    async with ScriptedUpstream(script) as upstream:
        settings = UpstreamSettings(name="up", base_url=upstream.base_url, retries=0)
        async with await client.send(settings, "POST", "/v1/chat/completions", b"", [], b"{}") as answer:
            yield await inspect(answer)
        await client.aclose()


async def relayed(script: Script, made: Shaping | None = None, *, asked_usage: bool = False) -> tuple[Kept, Notes]:
    """What the client got, and what was noted."""
    down, notes = Kept(), Notes("req-1", "chat")
    notes.asked_usage, notes.outcome, notes.stream = asked_usage, "passed", True
    if made is not None:
        notes.planned(made, 0.0)
    async with inspected(script) as verdict:
        await Relay(verdict, down, notes, made).run()
    assert down.ended
    return down, notes


def events(*datas: bytes) -> bytes:
    return b"".join(b"data: " + data + b"\n\n" for data in datas)


# -- looking at an answer before it goes on ----------------------------------------------------------------------

VERDICTS: list[tuple[str, Script, bool, bool, bool]] = [
    # answer → overflow, read whole, a stream
    ("an overflow", json_reply(OVERFLOW, 400), True, True, False),
    ("one that is compressed", json_reply(OVERFLOW, 400, gzip=True), True, True, False),
    ("one inside a success", json_reply(OVERFLOW, 200), True, True, False),
    ("one inside a stream", sse_reply(msgspec.json.encode(OVERFLOW)), True, False, True),
    ("another error", json_reply({"error": {"message": "no"}}, 400), False, True, False),
    ("an error longer than is read", reply(500, b"x" * (ERROR_LIMIT + 1_000_000)), False, False, False),
    ("an answer", json_reply(ANSWER), False, True, False),
    ("an answer larger than is held", reply(200, b"x" * (WHOLE_LIMIT + 4_000_000)), False, False, False),
    ("a stream", sse_reply(EVENT), False, False, True),
    ("a stream labelled as text", reply(200, b"data: {}\n\n", [(b"content-type", b"text/plain")]), False, False, True),
    ("a stream labelled as nothing", reply(200, b"\n: hello\n\n"), False, False, True),
    ("a stream that is cut small", reply(200, b"event: x\ndata: {}\n\n", split=1), False, False, True),
    ("JSON after empty lines", reply(200, b"\n\n\n\n\n\n\n\n\n\n" + msgspec.json.encode(ANSWER)), False, True, False),
    ("nothing", reply(204), False, True, False),
]


@pytest.mark.parametrize(("_", "script", "overflow", "whole", "stream"), VERDICTS, ids=[row[0] for row in VERDICTS])
async def test_an_answer_is_judged_by_its_beginning(
    _: str, script: Script, overflow: bool, whole: bool, stream: bool
) -> None:
    async with inspected(script) as verdict:
        assert (verdict.overflow is not None, verdict.body is not None, verdict.stream) == (overflow, whole, stream)


WAIT = (
    "Request too large for model m on tokens per minute (TPM): Limit 6000, Requested 14810, reduce your message size."
)


@pytest.mark.parametrize(
    ("script", "heavy"),
    [
        (reply(413, b"<html>413 Request Entity Too Large</html>"), True),
        (json_reply({"error": {"message": "Payload Too Large"}}, 413), True),
        (json_reply({"error": {"message": WAIT, "code": "rate_limit_exceeded"}}, 413), False),
        (json_reply(OVERFLOW, 413), False),
        (json_reply({"error": {"message": "Payload Too Large"}}, 400), False),
    ],
)
async def test_too_many_bytes_is_neither_too_many_tokens_nor_too_many_a_minute(script: Script, heavy: bool) -> None:
    async with inspected(script) as verdict:
        assert verdict.too_many_bytes is heavy


@pytest.mark.parametrize("encoding", ["gzip", "nonsense", "identity"])
def test_what_cannot_be_decoded_is_not_read(encoding: str) -> None:
    assert readable(b"plain", encoding, 100) in (b"", b"plain")


def test_what_decodes_to_more_than_is_read_is_not_read() -> None:
    assert readable(gzip.compress(b"x" * 1_000), "gzip", 10) == b""


# -- answers in one piece ----------------------------------------------------------------------------------------


async def test_an_answer_keeps_its_bytes_and_its_usage_is_noted() -> None:
    body = (
        b'{ "usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":5}}, "x":1e21 }'
    )
    down, notes = await relayed(reply(200, body, [(b"content-type", b"application/json"), (b"x-vendor", b"1")]))
    assert down.body == body
    assert (down.status, down.header(b"x-vendor")) == (200, b"1")
    assert down.header(b"content-length") == str(len(body)).encode()
    assert down.header(b"x-request-id") == b"req-1"
    assert (notes.usage, notes.outcome, notes.status) == (Usage(7, 2, 5), "passed", 200)


async def test_a_compressed_answer_stays_compressed_and_its_usage_is_read() -> None:
    down, notes = await relayed(json_reply(ANSWER, gzip=True))
    assert down.header(b"content-encoding") == b"gzip"
    assert msgspec.json.decode(gzip.decompress(down.body)) == ANSWER
    assert notes.usage == Usage(7, 2)


async def test_an_answer_that_came_in_chunks_gets_its_length() -> None:
    down, _ = await relayed(json_reply(ANSWER, chunked=True, split=5))
    assert msgspec.json.decode(down.body) == ANSWER
    assert down.header(b"content-length") == str(len(down.body)).encode()
    assert down.header(b"transfer-encoding") is None


async def test_the_upstreams_own_request_id_is_kept() -> None:
    down, _ = await relayed(json_reply(ANSWER, headers=[(b"x-request-id", b"theirs")]))
    assert [value for name, value in down.headers if name == b"x-request-id"] == [b"theirs"]


@pytest.mark.parametrize(
    ("status", "outcome"), [(400, "upstream_rejected"), (429, "upstream_rejected"), (500, "upstream_error")]
)
async def test_an_error_passes_as_it_is_and_is_counted_as_one(status: int, outcome: str) -> None:
    error = {"error": {"message": "no"}, "usage": ANSWER["usage"]}
    down, notes = await relayed(json_reply(error, status, headers=[(b"retry-after", b"9")]))
    assert (down.status, msgspec.json.decode(down.body)) == (status, error)
    assert down.header(b"retry-after") == b"9"
    assert (notes.outcome, notes.usage) == (outcome, None)


async def test_an_answer_too_large_to_hold_goes_on_unread() -> None:
    body = b"x" * (WHOLE_LIMIT + 4_000_000)
    down, notes = await relayed(reply(200, body))
    assert down.body == body
    assert len(down.writes) > 2
    assert notes.usage is None


async def test_an_answer_that_breaks_off_before_the_client_got_any_is_an_error() -> None:
    head = reply(200, b"0123456789")[0]
    with pytest.raises(UpstreamUnreachable):
        await relayed([head, b"01234", CLOSE])


# -- streams -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", [0, 1, 7])
async def test_a_stream_keeps_its_bytes_however_it_is_cut(split: int) -> None:
    down, notes = await relayed(sse_reply(EVENT, "π∆".encode(), USAGE, split=split))
    assert down.body == events(EVENT, "π∆".encode(), USAGE, b"[DONE]")
    assert notes.usage == Usage(40, 2)
    assert down.header(b"content-length") is None


async def test_a_compressed_streams_usage_is_read_beside_the_path() -> None:
    packed = gzip.compress(events(EVENT, USAGE, b"[DONE]"))
    head = reply(200, b"", [(b"content-type", b"text/event-stream"), (b"content-encoding", b"gzip")], chunked=True)[0]
    down, notes = await relayed([head, chunk(packed[:20]), chunk(packed[20:]), b"0\r\n\r\n"], shaping(agent_run(30)))
    assert down.body == packed
    assert notes.usage == Usage(40, 2)


async def test_only_a_stream_that_was_shaped_is_told_so() -> None:
    plain, _ = await relayed(sse_reply(EVENT), shaping(chat(1)))
    shaped, _ = await relayed(sse_reply(EVENT), shaping(agent_run(30)))
    assert plain.body == events(EVENT, b"[DONE]")
    assert shaped.body.startswith(b": trimtab {")
    assert shaped.body.endswith(events(EVENT, b"[DONE]"))
    assert shaped.header(b"x-trimtab-edits")
    assert plain.header(b"x-trimtab-tokens")


@pytest.mark.parametrize("split", [0, 1, 9])
async def test_a_usage_only_we_asked_for_is_read_and_taken_out(split: int) -> None:
    null = b'{"choices":[{"index":0}],"usage":null}'
    last = b'{"choices":[{"index":0,"finish_reason":"stop"}],"usage":{"prompt_tokens":41}}'
    down, notes = await relayed(sse_reply(EVENT, null, USAGE, last, split=split), shaping(chat(1)), asked_usage=True)
    assert down.body == events(EVENT, null, last, b"[DONE]")
    assert notes.usage == Usage(41)


MANAGED = {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}


@pytest.mark.parametrize("headers", [[], [(b"content-encoding", b"identity")]], ids=["plain", "said to be plain"])
async def test_edits_the_client_asked_about_stand_in_the_answer(headers: Headers) -> None:
    down, _ = await relayed(json_reply(ANSWER, headers=headers), shaping(chat(1), **MANAGED))
    told = msgspec.json.decode(down.body)
    assert told.pop("context_management") == {"applied_edits": []}
    assert told == ANSWER
    assert down.header(b"content-length") == str(len(down.body)).encode()


@pytest.mark.parametrize(
    ("body", "becomes"),
    [
        (b"{}", b'{"context_management":{"applied_edits":[]}}'),
        (b'{"a":1} \n', b'{"a":1,"context_management":{"applied_edits":[]}}'),
        (b"[1]", b"[1]"),
        (b"", b""),
    ],
)
async def test_they_are_put_before_the_last_brace_and_nowhere_else(body: bytes, becomes: bytes) -> None:
    down, _ = await relayed(reply(200, body), shaping(chat(1), **MANAGED))
    assert down.body == becomes
    assert down.header(b"content-length") == str(len(becomes)).encode()


@pytest.mark.parametrize("done", [True, False])
async def test_in_a_stream_they_come_last_once_in_a_chunk_like_the_others(done: bool) -> None:
    down, _ = await relayed(sse_reply(EVENT, USAGE, done=done), shaping(chat(1), **MANAGED))
    datas = [part.removeprefix(b"data: ") for part in down.body.strip().split(b"\n\n")]
    told: Any = msgspec.json.decode(datas[2])
    assert datas[:2] == [EVENT, USAGE]
    assert datas[3:] == ([b"[DONE]"] if done else [])
    assert told == {"id": "c", "choices": [], "context_management": {"applied_edits": []}}


@pytest.mark.parametrize("headers", [[], [(b"content-encoding", b"Identity")]], ids=["plain", "said to be plain"])
async def test_a_stream_that_breaks_off_ends_in_an_error_event(headers: Headers) -> None:
    down, notes = await relayed(sse_reply(EVENT, CLOSE, headers=headers), shaping(chat(1)))
    head, _, last = down.body.strip().rpartition(b"data: ")
    assert head.startswith(events(EVENT))
    assert msgspec.json.decode(last)["error"]["code"] == "upstream_unreachable"
    assert (notes.outcome, notes.error_code) == ("upstream_error", "upstream_unreachable")


@pytest.mark.parametrize(
    ("event", "overflow"), [(msgspec.json.encode(OVERFLOW), True), (b'{"error":{"message":"busy"}}', False)]
)
async def test_an_error_in_the_middle_of_a_stream_passes_and_is_counted(event: bytes, overflow: bool) -> None:
    down, notes = await relayed(sse_reply(EVENT, event))
    assert down.body == events(EVENT, event, b"[DONE]")
    assert (notes.outcome, notes.overflow) == ("upstream_error", overflow)


@pytest.mark.parametrize(
    "said",
    [
        b'{"choices":[{"index":0,"delta":{"content":"the field \\"error\\" was set, response.failed"}}]}',
        b'{"choices":[{"index":0,"delta":{"content":"a"}}],"error":null}',
        b'{"choices":[{"index":0,"delta":{"content":"a"}}],"error":{}}',
    ],
)
async def test_an_event_that_only_speaks_of_an_error_is_none(said: bytes) -> None:
    down, notes = await relayed(sse_reply(said))
    assert down.body == events(said, b"[DONE]")
    assert notes.outcome == "passed"
