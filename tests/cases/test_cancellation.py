"""A client that leaves: its upstream call ends within a second, whenever it leaves."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest

from tests.support.chat import COMPLETION, post
from tests.support.conversations import chat
from tests.support.raw import opened, request
from tests.support.running import running
from tests.support.scripted import STALL, Pause, Received, ScriptedUpstream, Step, chunk, json_reply
from tests.support.streams import BEGUN
from tests.support.summaries import COMPACT, is_summary

pytestmark = pytest.mark.anyio

CASES = {
    "B034": "in the middle of a stream",
    "B036": "before the first token, and while a summary is made (which goes on for whoever needs it next)",
    "B169": "in the middle of its upload: no one is called, no error is logged (tests/faults/test_requests.py)",
}
EVENT = chunk(b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n')
FLOWING: list[Step] = [BEGUN, *[EVENT, Pause(0.02)] * 1_000]


WAYS = {
    "mid-stream": FLOWING,
    "before a token": [BEGUN, STALL],
    "before all": [STALL],
    "within JSON": [b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{", STALL],
    "within an error": [b"HTTP/1.1 500 Oops\r\ncontent-length: 99\r\n\r\n{", STALL],
}


@pytest.mark.parametrize("script", WAYS.values(), ids=WAYS)
async def test_the_upstream_is_left_within_a_second(script: list[Step]) -> None:
    async with ScriptedUpstream(script) as upstream, running(upstream.base_url) as proxy:
        _, writer = await opened(proxy.url)
        writer.write(request(body=msgspec.json.encode({"model": "m", "stream": True, "messages": chat(1)})))
        await writer.drain()
        await asyncio.sleep(0.3)
        assert not upstream.left.is_set()
        began = time.monotonic()
        writer.close()
        await asyncio.wait_for(upstream.left.wait(), 1)
        assert time.monotonic() - began < 1
        await asyncio.sleep(0.05)
        line = msgspec.json.decode(proxy.log.getvalue())
    assert (line["outcome"], line["level"]) == ("abandoned", "info")


async def test_a_client_that_leaves_while_a_summary_is_made_calls_no_model() -> None:
    def slow(received: Received) -> list[Step]:
        return [Pause(0.6), *json_reply(COMPLETION)] if is_summary(received) else json_reply(COMPLETION)

    async with ScriptedUpstream(slow) as upstream, running(upstream.base_url, COMPACT) as proxy:
        calling = asyncio.ensure_future(post(proxy.url, {"model": "m", "messages": chat(20)}))
        await asyncio.sleep(0.3)
        calling.cancel()
        await asyncio.sleep(1.5)
        assert proxy.parts.load.requests == 0
        assert '"outcome":"abandoned"' in proxy.log.getvalue()
    assert all(map(is_summary, upstream.requests))
