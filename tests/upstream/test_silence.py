"""A silence is the upstream's alone: neither a whole answer nor a client that reads slowly makes one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.scripted import STALL, Pause, ScriptedUpstream, sse_reply
from trimtab.errors import UpstreamTimeout
from trimtab.upstream.answer import Answer
from trimtab.upstream.client import Client
from trimtab.upstream.settings import UpstreamSettings

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    made = Client()
    yield made
    await made.aclose()


async def _answer(client: Client, server: ScriptedUpstream, seconds: float) -> Answer:
    upstream = UpstreamSettings(name="east", base_url=server.base_url, read_timeout_s=seconds, retries=0)
    return await client.send(upstream, "POST", "/v1/chat/completions", b"", [(b"host", b"h")], b"{}")


async def test_a_client_that_reads_slowly_is_no_silence(client: Client) -> None:
    async with ScriptedUpstream(sse_reply(b"1", Pause(0.05), b"2")) as server:
        got = []
        async for chunk in (await _answer(client, server, 0.2)).chunks():
            got.append(chunk)
            await asyncio.sleep(0.3)
    assert b"".join(got) == b"data: 1\n\ndata: 2\n\ndata: [DONE]\n\n"


async def test_a_silence_is_measured_from_the_last_bytes(client: Client) -> None:
    async with ScriptedUpstream(sse_reply(b"1", Pause(0.15), b"2", STALL)) as server:
        chunks = (await _answer(client, server, 0.2)).chunks()
        assert [await anext(chunks), await anext(chunks)] == [b"data: 1\n\n", b"data: 2\n\n"]
        with pytest.raises(UpstreamTimeout):
            await anext(chunks)
