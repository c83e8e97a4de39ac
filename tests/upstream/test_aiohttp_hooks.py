"""What we change in aiohttp: that each private name is still there, and what aiohttp alone would wait for forever."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.client_proto import ResponseHandler
from multidict import CIMultiDict
from yarl import URL

from tests.support.scripted import Pause, ScriptedUpstream, chunk
from trimtab.errors import UpstreamUnreachable
from trimtab.upstream.aiohttp_hooks import Connector, post
from trimtab.upstream.client import Client, open_session
from trimtab.upstream.settings import UpstreamSettings

pytestmark = pytest.mark.anyio

MISSING = "aiohttp {version} has no {name}: see proxy/trimtab/upstream/aiohttp_hooks.py, or install an older aiohttp"


@pytest.fixture
async def connector() -> AsyncIterator[Connector]:
    made = Connector()
    yield made
    await made.close()


async def test_every_private_name_that_is_hooked_is_still_there() -> None:
    loop = asyncio.get_running_loop()
    plain = aiohttp.TCPConnector()
    session = aiohttp.ClientSession(connector=plain)
    owners = {
        "ClientRequest": (aiohttp.ClientRequest, ["update_headers", "update_auto_headers", "_skip_auto_headers"]),
        "ResponseHandler": (ResponseHandler(loop), ["set_exception", "_payload", "read_timeout"]),
        "TCPConnector": (plain, ["_factory", "_loop"]),
        "ClientSession": (session, ["_read_bufsize", "_max_line_size", "_max_field_size", "_max_headers"]),
        "StreamReader": (aiohttp.StreamReader(BaseProtocol(loop), 1), ["_read_nowait"]),
    }
    await session.close()
    missing = [
        MISSING.format(version=aiohttp.__version__, name=f"{owner}.{name}")
        for owner, (value, names) in owners.items()
        for name in names
        if not hasattr(value, name)
    ]
    assert missing == []


async def test_every_hook_is_called_as_it_was_written_for() -> None:
    assert list(inspect.signature(aiohttp.ClientRequest.update_headers).parameters) == ["self", "headers"]
    assert list(inspect.signature(aiohttp.StreamReader._read_nowait).parameters) == ["self", "n"]
    assert "exc" in inspect.signature(ResponseHandler.set_exception).parameters
    taken = inspect.signature(aiohttp.ClientRequest).parameters
    assert {"headers", "data", "loop", "timer", "session"} <= set(taken)
    assert list(inspect.signature(aiohttp.ClientRequest.send).parameters) == ["self", "conn"]
    assert list(inspect.signature(aiohttp.ClientResponse.start).parameters) == ["self", "connection"]
    assert list(inspect.signature(aiohttp.TCPConnector.connect).parameters) == ["self", "req", "traces", "timeout"]
    used = {"timer", "read_until_eof", "auto_decompress", "read_timeout", "read_bufsize"}
    used |= {"max_line_size", "max_field_size", "max_headers"}
    assert used <= set(inspect.signature(ResponseHandler.set_response_params).parameters)


async def test_connections_are_made_with_our_protocol(connector: Connector) -> None:
    assert type(connector._factory()).__module__ == Connector.__module__


HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("bad", [b"zz\r\n", b"5\r\nhelloX", b"\r\n\r\n", b"-1\r\n", b"5 5\r\n", b"\0" * 20], ids=repr)
@pytest.mark.parametrize("pause", [0, 0.05], ids=["with what came before", "later"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_answer_with_broken_framing_fails_at_once(bad: bytes, pause: float, method: str) -> None:
    client = Client()
    script = [HEAD, chunk(b"one"), Pause(pause), bad, Pause(5)]
    async with ScriptedUpstream(script) as upstream:
        settings = UpstreamSettings(name="test", base_url=upstream.base_url, retries=0)
        async with asyncio.timeout(2), await client.send(settings, method, "/v1/x", b"", [], b"") as answer:
            with pytest.raises(UpstreamUnreachable):
                await answer.read(1 << 20)
        await client.aclose()


async def parts() -> AsyncIterator[bytes]:
    yield b"one"


async def test_a_post_leaves_its_headers_as_they_were_for_another_try() -> None:
    headers = CIMultiDict({"host": "h"})
    async with ScriptedUpstream() as upstream:
        session = open_session()
        for _ in range(2):
            url, timeouts = URL(f"{upstream.base_url}/x"), aiohttp.ClientTimeout()
            answer = await post(session, url, headers, parts(), timeouts)
            await answer.read()
        await session.close()
    assert list(headers.items()) == [("host", "h")]
    assert [request.body for request in upstream.requests] == [b"one", b"one"]
