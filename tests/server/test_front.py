"""Requests under `/v1/` in a running proxy: bounds, and connections that stay usable."""

from __future__ import annotations

import asyncio

import aiohttp
import msgspec
import pytest
from yarl import URL

from tests.support.chat import COMPLETION, post
from tests.support.conversations import chat
from tests.support.raw import exchange, request
from tests.support.running import running, sample
from tests.support.scripted import STALL, ScriptedUpstream, json_reply, sse_reply

pytestmark = pytest.mark.anyio


async def test_after_an_answer_to_half_a_request_the_next_one_finds_a_connection() -> None:
    """The server closes a connection whose request was not read to its end; a pool that does not know would use it."""
    small, large = b'{"messages":[{"role":"user","content":"hi"}]}', b'{"a":"' + b"x" * 1_500_000 + b'"}'
    statuses = []
    async with (
        ScriptedUpstream(json_reply(COMPLETION)) as upstream,
        running(upstream.base_url, "[server]\nmax_body_mb = 1\n") as proxy,
        aiohttp.ClientSession() as session,
    ):
        for body in [large, small] * 20:
            async with session.post(f"{proxy.url}/v1/context/plan", data=body) as answer:
                statuses.append((answer.status, answer.headers.get("connection")))
                await answer.read()
    assert statuses == [(413, "close"), (200, None)] * 20


async def test_beyond_the_requests_in_flight_the_answer_is_when_to_come_again() -> None:
    toml = "[server]\nmax_in_flight = 1\n"
    async with ScriptedUpstream([STALL]) as upstream, running(upstream.base_url, toml) as proxy:
        first = asyncio.ensure_future(post(proxy.url, {"model": "m", "messages": chat(0)}))
        while not upstream.requests:  # noqa: ASYNC110  the upstream is a list of what came
            await asyncio.sleep(0.01)
        second = await post(proxy.url, {"model": "m", "messages": chat(0)}, x_request_id="r-2")
        line = msgspec.json.decode(proxy.log.getvalue().splitlines()[-1])
        first.cancel()
        await asyncio.wait_for(upstream.left.wait(), 2)
        for _ in range(100):
            if not proxy.parts.load.requests:
                break
            await asyncio.sleep(0.01)
        assert proxy.parts.load.requests == 0
    error = second.json()["error"]
    assert (second.status, error["code"], error["request_id"]) == (503, "overloaded", "r-2")
    assert "max_in_flight" in error["message"]
    assert second.headers["retry-after"] == "1"
    assert (line["outcome"], line["status"]) == ("overloaded", 503)
    assert len(upstream.requests) == 1


async def test_a_body_too_large_is_refused_before_it_has_come() -> None:
    toml = "[server]\nmax_body_mb = 1\n"
    async with ScriptedUpstream() as upstream, running(upstream.base_url, toml) as proxy:
        answer = await post(proxy.url, b"x" * ((1 << 20) + 1))
        assert proxy.parts.load.bytes == 0
    assert (answer.status, answer.json()["error"]["code"]) == (413, "request_too_large")
    assert "1 MB" in answer.json()["error"]["message"]


async def test_who_still_uploads_reads_the_answer_and_not_a_reset() -> None:
    toml = "[server]\nmax_body_mb = 1\n"
    async with ScriptedUpstream() as upstream, running(upstream.base_url, toml) as proxy:
        answer = await exchange(proxy.url, request(body=b"x" * 20_000_000, extra=b""), wait_s=1)
    assert (answer.status, answer.reset) == (413, False)


async def test_bytes_in_flight_are_a_metric() -> None:
    body = msgspec.json.encode({"model": "m", "messages": chat(3)})
    async with ScriptedUpstream([STALL]) as upstream, running(upstream.base_url) as proxy:
        waiting = asyncio.ensure_future(post(proxy.url, body))
        while not upstream.requests:  # noqa: ASYNC110  the upstream is a list of what came
            await asyncio.sleep(0.01)
        metrics = await proxy.metrics()
        waiting.cancel()
    assert sample(metrics, "trimtab_inflight_bytes") == len(body)
    assert sample(metrics, "trimtab_inflight_requests") == 1
    assert sample(metrics, "trimtab_inflight_bytes_limit") >= 8 << 20
    assert sample(metrics, "process_open_fds") > 0


async def test_a_body_above_what_may_be_in_flight_is_not_asked_to_come_again() -> None:
    toml = "[server]\nmax_in_flight_mb = 1\n"
    async with ScriptedUpstream() as upstream, running(upstream.base_url, toml) as proxy:
        answer = await post(proxy.url, b"x" * ((1 << 20) + 1))
    assert (answer.status, answer.json()["error"]["code"]) == (413, "request_too_large")
    assert "max_in_flight_mb" in answer.json()["error"]["message"]


async def test_nothing_is_held_once_answers_are_given() -> None:
    scripts = (json_reply(COMPLETION), sse_reply(b'{"choices":[]}'))
    async with ScriptedUpstream(*scripts) as upstream, running(upstream.base_url) as proxy:
        for stream in (False, True):
            await post(proxy.url, {"model": "m", "stream": stream, "messages": chat(2)})
        await post(proxy.url, b"{broken")
        load = proxy.parts.load
        assert (load.requests, load.bytes) == (0, 0)


@pytest.mark.parametrize("path", ["/v1/files/a%2Fb?x=%20y&x=2", "/v1/files/%E5%8C%97", "/v1/x?"])
async def test_paths_queries_and_headers_of_any_bytes_go_through_as_they_came(path: str) -> None:
    async with (
        ScriptedUpstream(json_reply({})) as upstream,
        running(upstream.base_url) as proxy,
        aiohttp.ClientSession(headers={"X-Name": "Zoë"}) as session,
        session.get(URL(proxy.url + path, encoded=True)) as answer,
    ):
        assert answer.status == 200
    assert upstream.requests[0].target == path.removesuffix("?")
    assert upstream.requests[0].header(b"x-name") == "Zoë".encode()
