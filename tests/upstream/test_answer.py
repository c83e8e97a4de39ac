"""An answer: what `complete` means, that closing is always allowed, and how long it may be silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.scripted import CLOSE, STALL, Pause, ScriptedUpstream, Step, reply, sse_reply
from trimtab.errors import UpstreamTimeout, UpstreamUnreachable
from trimtab.upstream.answer import Answer
from trimtab.upstream.client import Client
from trimtab.upstream.settings import UpstreamSettings

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    client = Client()
    yield client
    await client.aclose()


async def answered(client: Client, server: ScriptedUpstream, method: str = "POST", read_s: float = 600) -> Answer:
    upstream = UpstreamSettings(name="here", base_url=server.base_url, read_timeout_s=read_s)
    return await client.send(upstream, method, "/v1/chat/completions", b"", [], b"{}" * (method == "POST"))


BODILESS: list[tuple[str, list[Step]]] = [
    ("POST", reply(204)),
    ("HEAD", [reply(200, b"12345")[0]]),
    ("POST", reply(200)),
]


@pytest.mark.parametrize(("method", "script"), BODILESS)
async def test_an_answer_without_a_body(client: Client, method: str, script: list[Step]) -> None:
    async with ScriptedUpstream(script) as server:
        answer = await answered(client, server, method)
        assert await answer.read(limit=100) == b""
        assert answer.complete
        assert [chunk async for chunk in answer.chunks()] == []
        await answer.aclose()


async def test_closing_twice_or_after_the_end_is_harmless(client: Client) -> None:
    async with ScriptedUpstream(reply(200, b"body"), sse_reply(b"1", STALL)) as server:
        whole, stalled = await answered(client, server), await answered(client, server)
        assert await whole.read(limit=100) == b"body"
        for answer in (whole, stalled, whole, stalled):
            await answer.aclose()
        await asyncio.wait_for(server.left.wait(), 1)


async def test_a_body_read_to_its_end_gives_the_connection_back(client: Client) -> None:
    async with ScriptedUpstream(reply(400, b"body", chunked=True)) as server:
        for _ in range(3):
            async with await answered(client, server) as answer:
                assert await answer.read(limit=100) == b"body"
    assert server.connections == 1


async def test_a_body_until_the_connection_closes_is_whole(client: Client) -> None:
    script: list[Step] = [b"HTTP/1.1 200 OK\r\n\r\n", b"one", b"two", CLOSE]
    async with ScriptedUpstream(script) as server:
        answer = await answered(client, server)
        assert b"".join([chunk async for chunk in answer.chunks()]) == b"onetwo"


async def test_a_body_shorter_than_stated_is_a_break(client: Client) -> None:
    async with ScriptedUpstream([b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12345", CLOSE]) as server:
        answer = await answered(client, server)
        with pytest.raises(UpstreamUnreachable, match="broke off"):
            await answer.read(limit=100)


async def test_a_client_that_reads_slowly_does_not_count_as_silence(client: Client) -> None:
    async with ScriptedUpstream(sse_reply(b"1", Pause(0.05), b"2")) as server:
        got = []
        async for chunk in (await answered(client, server, read_s=0.2)).chunks():
            got.append(chunk)
            await asyncio.sleep(0.3)
    assert b"".join(got) == b"data: 1\n\ndata: 2\n\ndata: [DONE]\n\n"


async def test_a_silence_is_measured_from_the_last_bytes(client: Client) -> None:
    async with ScriptedUpstream(sse_reply(b"1", Pause(0.15), b"2", STALL)) as server:
        chunks = (await answered(client, server, read_s=0.2)).chunks()
        assert [await anext(chunks), await anext(chunks)] == [b"data: 1\n\n", b"data: 2\n\n"]
        with pytest.raises(UpstreamTimeout):
            await anext(chunks)
