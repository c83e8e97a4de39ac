"""The answer's way back: every byte as it came, and what is read beside the path. From a real upstream, to a client
that keeps each write."""

from __future__ import annotations

import gzip
from typing import Any

import msgspec
import pytest

from tests.exchange.requests import Kept, inspected, shaping
from tests.support.conversations import agent_run, chat
from tests.support.scripted import CLOSE, Headers, Script, chunk, json_reply, reply, sse_reply
from trimtab.errors import UpstreamUnreachable
from trimtab.exchange.decide import Shaping
from trimtab.exchange.notes import Notes, Relayed
from trimtab.exchange.relay import RelayOptions, relay
from trimtab.exchange.report import Report, edited
from trimtab.exchange.verdict import WHOLE_LIMIT
from trimtab.telemetry import Usage

pytestmark = pytest.mark.anyio

OVERFLOW = {"error": {"message": "maximum context length is 4096 tokens", "code": "context_length_exceeded"}}
ANSWER = {"id": "c", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
EVENT = b'{"id":"c","object":"x","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"a"}}]}'
USAGE = b'{"id":"c","choices":[],"usage":{"prompt_tokens":40,"completion_tokens":2}}'


async def relayed(script: Script, made: Shaping | None = None, **options: Any) -> tuple[Kept, Relayed]:
    """What the client got, and what came of it."""
    down, notes = Kept(), Notes("req-1", "chat")
    notes.calling("up")
    report = Report(made, edited(made)) if made is not None else None
    if options.pop("managed", False):
        assert report is not None
        options["adds"] = report.fields(obeyed=True, explain=False)
    async with inspected(script) as verdict:
        result = await relay(verdict, down, notes, RelayOptions(report, **options))
    assert (notes.status, notes.usage, notes.overflow) == (result.status, result.usage, result.overflow)
    assert down.ended
    return down, result


def events(*datas: bytes) -> bytes:
    return b"".join(b"data: " + data + b"\n\n" for data in datas)


# -- answers in one piece ----------------------------------------------------------------------------------------


async def test_an_answer_keeps_its_bytes_and_its_usage_is_noted() -> None:
    body = (
        b'{ "usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":5}}, "x":1e21 }'
    )
    down, result = await relayed(reply(200, body, [(b"content-type", b"application/json"), (b"x-vendor", b"1")]))
    assert down.body == body
    assert (down.status, down.header(b"x-vendor")) == (200, b"1")
    assert down.header(b"content-length") == str(len(body)).encode()
    assert down.header(b"x-request-id") == b"req-1"
    assert (result.usage, result.failure, result.status) == (Usage(7, 2, 5), None, 200)


async def test_a_compressed_answer_stays_compressed_and_its_usage_is_read() -> None:
    down, result = await relayed(json_reply(ANSWER, gzip=True))
    assert down.header(b"content-encoding") == b"gzip"
    assert msgspec.json.decode(gzip.decompress(down.body)) == ANSWER
    assert result.usage == Usage(7, 2)


async def test_an_answer_that_came_in_chunks_gets_its_length() -> None:
    down, _ = await relayed(json_reply(ANSWER, chunked=True, split=5))
    assert msgspec.json.decode(down.body) == ANSWER
    assert down.header(b"content-length") == str(len(down.body)).encode()
    assert down.header(b"transfer-encoding") is None


async def test_the_upstreams_own_request_id_is_kept() -> None:
    down, _ = await relayed(json_reply(ANSWER, headers=[(b"x-request-id", b"theirs")]))
    assert [value for name, value in down.headers if name == b"x-request-id"] == [b"theirs"]


@pytest.mark.parametrize(
    ("status", "failure"), [(400, "upstream_rejected"), (429, "upstream_rejected"), (500, "upstream_error")]
)
async def test_an_error_passes_as_it_is_and_is_counted_as_one(status: int, failure: str) -> None:
    error = {"error": {"message": "no"}, "usage": ANSWER["usage"]}
    down, result = await relayed(json_reply(error, status, headers=[(b"retry-after", b"9")]))
    assert (down.status, msgspec.json.decode(down.body)) == (status, error)
    assert down.header(b"retry-after") == b"9"
    assert (result.failure, result.usage) == (failure, None)


async def test_an_answer_too_large_to_hold_goes_on_unread() -> None:
    body = b"x" * (WHOLE_LIMIT + 4_000_000)
    down, result = await relayed(reply(200, body))
    assert down.body == body
    assert len(down.writes) > 2
    assert result.usage is None


async def test_an_answer_that_breaks_off_before_the_client_got_any_is_an_error() -> None:
    head = reply(200, b"0123456789")[0]
    with pytest.raises(UpstreamUnreachable):
        await relayed([head, b"01234", CLOSE])


# -- streams -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", [0, 1, 7])
async def test_a_stream_keeps_its_bytes_however_it_is_cut(split: int) -> None:
    down, result = await relayed(sse_reply(EVENT, "π∆".encode(), USAGE, split=split))
    assert down.body == events(EVENT, "π∆".encode(), USAGE, b"[DONE]")
    assert result.usage == Usage(40, 2)
    assert down.header(b"content-length") is None


async def test_a_compressed_streams_usage_is_read_beside_the_path() -> None:
    packed = gzip.compress(events(EVENT, USAGE, b"[DONE]"))
    head = reply(200, b"", [(b"content-type", b"text/event-stream"), (b"content-encoding", b"gzip")], chunked=True)[0]
    down, result = await relayed([head, chunk(packed[:20]), chunk(packed[20:]), b"0\r\n\r\n"], shaping(agent_run(30)))
    assert down.body == packed
    assert result.usage == Usage(40, 2)


async def test_only_a_stream_that_was_shaped_has_a_comment() -> None:
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
    down, result = await relayed(sse_reply(EVENT, null, USAGE, last, split=split), shaping(chat(1)), include_usage=True)
    assert down.body == events(EVENT, null, last, b"[DONE]")
    assert result.usage == Usage(41)


MANAGED = {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}


@pytest.mark.parametrize("headers", [[], [(b"content-encoding", b"identity")]], ids=["plain", "labelled as plain"])
async def test_edits_the_client_asked_about_stand_in_the_answer(headers: Headers) -> None:
    down, _ = await relayed(json_reply(ANSWER, headers=headers), shaping(chat(1), **MANAGED), managed=True)
    shown = msgspec.json.decode(down.body)
    assert shown.pop("context_management") == {"applied_edits": []}
    assert shown == ANSWER
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
    down, _ = await relayed(reply(200, body), shaping(chat(1), **MANAGED), managed=True)
    assert down.body == becomes
    assert down.header(b"content-length") == str(len(becomes)).encode()


@pytest.mark.parametrize("done", [True, False])
async def test_in_a_stream_they_come_last_once_in_a_chunk_like_the_others(done: bool) -> None:
    down, _ = await relayed(sse_reply(EVENT, USAGE, done=done), shaping(chat(1), **MANAGED), managed=True)
    datas = [part.removeprefix(b"data: ") for part in down.body.strip().split(b"\n\n")]
    shown: Any = msgspec.json.decode(datas[2])
    assert datas[:2] == [EVENT, USAGE]
    assert datas[3:] == ([b"[DONE]"] if done else [])
    assert shown == {"id": "c", "choices": [], "context_management": {"applied_edits": []}}


@pytest.mark.parametrize("headers", [[], [(b"content-encoding", b"Identity")]], ids=["plain", "labelled as plain"])
async def test_a_stream_that_breaks_off_ends_in_an_error_event(headers: Headers) -> None:
    down, result = await relayed(sse_reply(EVENT, CLOSE, headers=headers), shaping(chat(1)))
    head, _, last = down.body.strip().rpartition(b"data: ")
    assert head.startswith(events(EVENT))
    assert msgspec.json.decode(last)["error"]["code"] == "upstream_unreachable"
    assert (result.failure, result.error_code) == ("upstream_error", "upstream_unreachable")


@pytest.mark.parametrize(
    ("event", "overflow"), [(msgspec.json.encode(OVERFLOW), True), (b'{"error":{"message":"busy"}}', False)]
)
async def test_an_error_in_the_middle_of_a_stream_passes_and_is_counted(event: bytes, overflow: bool) -> None:
    down, result = await relayed(sse_reply(EVENT, event))
    assert down.body == events(EVENT, event, b"[DONE]")
    assert (result.failure, result.overflow) == ("upstream_error", overflow)


@pytest.mark.parametrize(
    "event",
    [
        b'{"choices":[{"index":0,"delta":{"content":"the field \\"error\\" was set, response.failed"}}]}',
        b'{"choices":[{"index":0,"delta":{"content":"a"}}],"error":null}',
        b'{"choices":[{"index":0,"delta":{"content":"a"}}],"error":{}}',
    ],
)
async def test_an_event_that_only_mentions_an_error_is_not_one(event: bytes) -> None:
    down, result = await relayed(sse_reply(event))
    assert down.body == events(event, b"[DONE]")
    assert result.failure is None
