"""Connections: what aiohttp alone would wait for, for ever."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.scripted import Pause, ScriptedUpstream, chunk
from trimtab.errors import UpstreamUnreachable
from trimtab.upstream.client import Client
from trimtab.upstream.settings import UpstreamSettings

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("bad", [b"zz\r\n", b"5\r\nhelloX", b"\r\n\r\n", b"-1\r\n", b"5 5\r\n", b"\0" * 20], ids=repr)
@pytest.mark.parametrize("pause", [0, 0.05], ids=["with what came before", "later"])
async def test_an_answer_with_broken_framing_fails_at_once(bad: bytes, pause: float) -> None:
    client = Client()
    script = [HEAD, chunk(b"one"), Pause(pause), bad, Pause(5)]
    async with ScriptedUpstream(script) as upstream:
        settings = UpstreamSettings(name="test", base_url=upstream.base_url, retries=0)
        async with asyncio.timeout(2), await client.send(settings, "GET", "/v1/x", b"", [], b"") as answer:
            with pytest.raises(UpstreamUnreachable):
                await answer.read(1 << 20)
        await client.aclose()
