"""A client that waits for a summary: its stream begins with comments, and goes on with what the upstream answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.support.chat import COMPLETION, OVERFLOW, Call, post
from tests.support.conversations import chat
from tests.support.running import Running, running, sample
from tests.support.scripted import CLOSE, Pause, Received, Script, ScriptedUpstream, Step, json_reply, sse_reply
from tests.support.summaries import SUMMARIES, writing_as_writer
from tests.support.waiting import eventually
from trimtab.exchange.pulse import KEEP_ALIVE

pytestmark = pytest.mark.anyio

EVENT = b'{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Done"}}]}'
BODY: dict[str, Any] = {"model": "m", "messages": chat(16), "stream": True}
ANSWER = sse_reply(EVENT)


@contextlib.asynccontextmanager
async def slow(script: Script, *, writes_s: float = 0.7, keepalive_s: float = 0.2) -> AsyncIterator[Running]:
    """A proxy whose summary model takes `writes_s` seconds, and whose upstream answers with the script."""

    def either(received: Received) -> list[Step]:
        if received.json()["model"] == "writer":
            return [Pause(writes_s), *writing_as_writer(received)]
        return list(script(received) if callable(script) else script)

    toml = f"[server]\nkeepalive_s = {keepalive_s}\n[shaping]\nextract_share = 0.0\n" + SUMMARIES
    async with ScriptedUpstream(either) as upstream, running(upstream.base_url, toml) as proxy:
        yield proxy


def line(proxy: Running) -> dict[str, Any]:
    found = [msgspec.json.decode(each) for each in proxy.log.getvalue().splitlines()]
    return next(each for each in found if each["event"] == "exchange")


def last_event(answer: Call) -> Any:
    return msgspec.json.decode(answer.body.rstrip().split(b"\n\n")[-1].removeprefix(b"data: "))


async def test_a_stream_begins_with_comments_and_goes_on_as_the_upstream_has_it() -> None:
    async with slow(ANSWER) as proxy:
        answer = await post(proxy.url, BODY, x_request_id="mine")
    comments, _, rest = answer.body.partition(b": trimtab ")
    beats = comments.count(KEEP_ALIVE)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")
    assert answer.headers["x-trimtab-request-id"] == answer.headers["x-request-id"] == "mine"
    assert comments == KEEP_ALIVE * beats
    assert beats >= 3
    report, _, events = rest.partition(b"\n\n")
    assert msgspec.json.decode(report)["summary"] == "miss"
    assert events == b"data: " + EVENT + b"\n\ndata: [DONE]\n\n"


async def test_an_answer_in_one_piece_is_waited_for_in_silence() -> None:
    async with slow(json_reply(COMPLETION)) as proxy:
        answer = await post(proxy.url, {**BODY, "stream": False})
    assert (answer.json(), answer.headers["x-trimtab-summary"]) == (COMPLETION, "miss")


@pytest.mark.parametrize(("writes_s", "keepalive_s"), [(0.0, 0.5), (0.4, 0.0)])
async def test_a_summary_in_time_and_keepalive_off_leave_the_head_to_the_upstream(
    writes_s: float, keepalive_s: float
) -> None:
    error = json_reply({"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, 429)
    async with slow([Pause(0.7), *error], writes_s=writes_s, keepalive_s=keepalive_s) as proxy:
        answer = await post(proxy.url, BODY)
    assert answer.status == 429


ERRORS: list[tuple[str, Script, str, str, str]] = [
    (
        "a rate limit",
        json_reply({"error": {"message": "Slow down.", "code": "rate_limit_exceeded"}}, 429),
        "Slow down. (The upstream's status: 429.)",
        "rate_limit_exceeded",
        "upstream_rejected",
    ),
    ("a failure", json_reply({"error": "broken"}, 500), "broken (The upstream's status: 500.)", "", "upstream_error"),
    (
        "no JSON",
        json_reply("x", 503),
        "The upstream answered with an error. (The upstream's status: 503.)",
        "",
        "upstream_error",
    ),
    ("no answer", [CLOSE], "closed the connection without an answer", "upstream_unreachable", "upstream_error"),
    ("one piece", json_reply(COMPLETION), "with an answer in one piece, where the client's", "", "upstream_error"),
    (
        "an overflow",
        json_reply(OVERFLOW, 400),
        "The prompt is too long: this model's maximum context length is 4,096 tokens",
        "context_length_exceeded",
        "refused",
    ),
]


@pytest.mark.parametrize(("_", "script", "message", "code", "outcome"), ERRORS, ids=[row[0] for row in ERRORS])
async def test_an_error_is_an_event_of_the_stream_that_has_begun(
    _: str, script: Script, message: str, code: str, outcome: str
) -> None:
    async with slow(script) as proxy:
        answer = await post(proxy.url, BODY)
        logged = line(proxy)
    error = last_event(answer)["error"]
    assert answer.body.startswith(KEEP_ALIVE)
    assert b"[DONE]" not in answer.body
    assert message in error["message"]
    assert (error["code"] or "") == code
    assert (logged["outcome"], logged["status"]) == (outcome, 200)
    assert logged["error_code"] == (code or "upstream_error")


async def test_a_smaller_request_goes_on_in_the_stream_that_has_begun() -> None:
    def once(received: Received) -> list[Step]:
        return json_reply(OVERFLOW, 400) if len(received.body) > 25_000 else list(ANSWER)

    async with slow(once) as proxy:
        answer = await post(proxy.url, BODY)
        metrics = await proxy.metrics()
    assert answer.body.startswith(KEEP_ALIVE)
    assert answer.body.endswith(b"data: " + EVENT + b"\n\ndata: [DONE]\n\n")
    assert sample(metrics, 'trimtab_smaller_tries_total{result="saved"}') == 1


async def test_a_byte_order_mark_of_the_upstream_does_not_follow_a_comment() -> None:
    head = ANSWER[0]
    script = [head, b"3\r\n\xef\xbb\xbf\r\n", *ANSWER[1:]]
    async with slow(script) as proxy:
        answer = await post(proxy.url, BODY)
    assert b"\xef\xbb\xbf" not in answer.body


async def test_a_client_that_leaves_while_it_waits_ends_the_exchange() -> None:
    async with slow(ANSWER, writes_s=5.0) as proxy:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.6):
                await post(proxy.url, BODY)
        await eventually(lambda: "abandoned" in proxy.log.getvalue())
        assert line(proxy)["outcome"] == "abandoned"
