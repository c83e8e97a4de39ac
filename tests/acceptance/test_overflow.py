"""What an upstream says when a prompt is too long, whoever it is, becomes one clear error; what only looks like it goes
on byte for byte. Every line of the catalogue as a request through the running proxy."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.overflow.samples import CATALOGUE, as_bytes
from tests.support.chat import COMPLETION, Call, post
from tests.support.conversations import agent_run, chat
from tests.support.running import running
from tests.support.scripted import Received, ScriptedUpstream, Step, json_reply, reply, sse_reply

pytestmark = pytest.mark.anyio

LINES = {line["id"]: line for line in CATALOGUE}
OWN = [(b"x-request-id", b"req_upstream"), (b"retry-after", b"7"), (b"x-ratelimit-remaining", b"3")]


def kind_of(body: Any) -> bytes:
    text = body if isinstance(body, str) else "{"
    starts = {
        "data:": b"text/event-stream",
        "event:": b"text/event-stream",
        "<": b"text/html",
        "{": b"application/json",
    }
    return next((kind for start, kind in starts.items() if text.startswith(start)), b"text/plain")


def answer(received: Received) -> list[Step]:
    """What the upstream of the catalogue line says that the request's model names."""
    line = LINES[received.json()["model"]]
    return reply(line["status"], as_bytes(line["body"]), [(b"content-type", kind_of(line["body"])), *OWN])


def wrong(line: dict[str, Any], got: Call) -> str:
    """What is not as it should be; empty when all is."""
    if not line["is_overflow"]:
        sent = as_bytes(line["body"])
        own = all(got.headers.get(name.decode()) == value.decode() for name, value in OWN)
        return "" if (got.status, got.body, own) == (line["status"], sent, True) else "not as the upstream wrote it"
    error = got.json()["error"]
    expected = ("invalid_request_error", "messages", "context_length_exceeded")
    if got.status != 400 or (error["type"], error["param"], error["code"]) != expected:
        return f"{got.status} {error['code']}"
    if got.headers.get("x-should-retry") != "false":
        return "a client may try again"
    if as_bytes(line["body"]) and not error.get("upstream"):
        return "without the upstream's own message"
    figures = (error.get("upstream_limit"), error.get("reported"))
    return "" if line["id"] == "E058" or figures == (line["limit"], line["actual"]) else f"{figures}"


@pytest.mark.parametrize("stream", [False, True])
async def test_every_line_of_the_catalogue(stream: bool) -> None:
    failures: dict[str, str] = {}
    async with ScriptedUpstream(answer) as upstream, running(upstream.base_url) as proxy:
        for name, line in LINES.items():
            before = len(upstream.requests)
            got = await post(proxy.url, {"model": name, "stream": stream, "messages": chat(3)})
            calls = len(upstream.requests) - before
            found = wrong(line, got) or ("more than one smaller try" if calls > 1 + line["is_overflow"] else "")
            failures |= {name: found} if found else {}
        metrics = await proxy.metrics()
    assert failures == {}
    overflows = sum(line["is_overflow"] for line in CATALOGUE)
    assert f'trimtab_overflow_total{{upstream="test"}} {overflows}.0' in metrics


WINDOW = '[models."*"]\ncontext_size = 8192\nmax_output_tokens = 1024\n'


def saying(message: str, status: int = 400) -> list[Step]:
    return json_reply({"error": {"message": message, "type": "invalid_request_error"}}, status)


TOLD = "This model's maximum context length is 4096 tokens. However, your messages resulted in 6000 tokens."
UNTOLD = "Input is too long for requested model."


@pytest.mark.parametrize("message", [TOLD, UNTOLD])
@pytest.mark.parametrize("status", [400, 413, 422, 500])
async def test_one_smaller_try_saves_the_request_and_is_counted(message: str, status: int) -> None:
    body = {"model": "m", "messages": agent_run(12)}
    scripts = (saying(message, status), json_reply(COMPLETION))
    async with ScriptedUpstream(*scripts) as upstream, running(upstream.base_url, WINDOW) as proxy:
        got = await post(proxy.url, body)
        metrics = await proxy.metrics()
    first, second = (request.json() for request in upstream.requests)
    assert (got.status, got.json()) == (200, COMPLETION)
    assert first == body
    assert len(msgspec.json.encode(second)) < len(msgspec.json.encode(first))
    assert second["messages"][:2] == body["messages"][:2]
    assert 'trimtab_smaller_tries_total{result="saved"} 1.0' in metrics


async def test_there_is_never_a_second_smaller_try() -> None:
    async with ScriptedUpstream(saying(TOLD)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        got = await post(proxy.url, {"model": "m", "messages": agent_run(12)})
        metrics = await proxy.metrics()
    assert (got.status, got.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert got.json()["error"]["upstream"] == TOLD
    assert len(upstream.requests) == 2
    assert 'trimtab_smaller_tries_total{result="refused"} 1.0' in metrics


async def test_the_limit_that_was_learned_holds_for_the_next_request() -> None:
    scripts = (saying(TOLD), json_reply(COMPLETION))
    async with ScriptedUpstream(*scripts) as upstream, running(upstream.base_url, WINDOW) as proxy:
        await post(proxy.url, {"model": "m", "messages": agent_run(12)})
        got = await post(proxy.url, {"model": "m", "messages": agent_run(13)})
    assert len(upstream.requests) == 3
    assert got.headers["x-trimtab-limit-source"] == "learned"


INPUT_FITS = (
    "This model's maximum context length is 8192 tokens. However, you requested 8900 tokens (900 in the messages, "
    "8000 in the completion). Please reduce the length of the messages or completion."
)


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
async def test_where_the_input_alone_fits_the_output_is_lowered_and_no_history_goes(field: str) -> None:
    body = {"model": "m", field: 8000, "messages": chat(1)}
    scripts = (saying(INPUT_FITS), json_reply(COMPLETION))
    async with ScriptedUpstream(*scripts) as upstream, running(upstream.base_url) as proxy:
        got = await post(proxy.url, body)
    first, second = (request.json() for request in upstream.requests)
    assert got.status == 200
    assert first == body
    assert second["messages"] == body["messages"]
    assert 6500 < second[field] <= 8192 - 900


async def test_a_stream_that_already_began_ends_in_an_event_of_the_same_shape() -> None:
    said = b'{"id":"c","choices":[{"index":0,"delta":{"content":"a"}}]}'
    error = msgspec.json.encode({"error": {"message": TOLD, "code": "context_length_exceeded"}})
    async with ScriptedUpstream(sse_reply(said, error)) as upstream, running(upstream.base_url) as proxy:
        got = await post(proxy.url, {"model": "m", "stream": True, "messages": chat(1)})
    first, last = got.body.strip().split(b"\n\n")
    assert first == b"data: " + said
    told = msgspec.json.decode(last.removeprefix(b"data: "))["error"]
    assert (told["code"], told["param"], told["upstream"]) == ("context_length_exceeded", "messages", TOLD)
    assert len(upstream.requests) == 1
