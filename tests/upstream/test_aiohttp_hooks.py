"""What we change in aiohttp: that each private name is still there, and what aiohttp alone would wait for forever."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import socket
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.client_proto import ResponseHandler

from tests.support.scripted import CLOSE, STALL, Pause, ScriptedUpstream, chunk, json_reply, reply, sse_reply
from trimtab.errors import UpstreamUnreachable
from trimtab.upstream.aiohttp_hooks import Connector, Response, post
from trimtab.upstream.client import Client, open_session
from trimtab.upstream.headers import Pairs
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
        "ResponseHandler": (
            ResponseHandler(loop),
            [
                *("set_exception", "_payload", "read", "writing_paused", "_reading_paused", "connection_lost"),
                *("start_timeout", "_reschedule_timeout", "_drop_timeout", "_on_read_timeout", "_read_timeout"),
            ],
        ),
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
    assert "resume_parser" in inspect.signature(ResponseHandler.resume_reading).parameters
    assert "exc" in inspect.signature(ResponseHandler.set_exception).parameters
    assert {"headers", "loop"} <= set(inspect.signature(aiohttp.ClientRequest).parameters)
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


URL_TIMEOUTS = aiohttp.ClientTimeout(sock_read=1)


async def sent(upstream: ScriptedUpstream, headers: Pairs, body: bytes = b"one") -> Response:
    """The answer to a body that was posted."""
    session = open_session()
    answer = await post(session, f"{upstream.base_url}/x?y=%7E", headers, body, URL_TIMEOUTS)
    async with asyncio.timeout(2):
        await answer.content.read()
    await session.close()
    return answer


@pytest.mark.parametrize("size", [0, 1, 100_000, 3_000_000])
async def test_a_post_frames_its_body_where_the_headers_do_not(size: int) -> None:
    body = b"x" * size
    async with ScriptedUpstream() as upstream:
        await sent(upstream, [(b"x-a", b"1")], body)
        await sent(upstream, [(b"host", b"h"), (b"content-length", b"%d" % size)], body)
    first, second = upstream.requests
    assert first.header(b"host") == upstream.base_url.removeprefix("http://").removesuffix("/v1").encode()
    assert [first.all(b"content-length"), second.all(b"content-length")] == [[b"%d" % size]] * 2
    assert second.all(b"host") == [b"h"]
    assert [first.body, second.body] == [body, body]


async def test_a_post_sends_header_bytes_as_they_are_and_no_line_break() -> None:
    async with ScriptedUpstream() as upstream:
        await sent(upstream, [(b"x-a", b"caf\xe9")])
        for name, value in ((b"x-a", b"1\r\nx-b: 2"), (b"x-a", b"1\nx-b: 2"), (b"x-a: 1\nx-b", b"2")):
            with pytest.raises(ValueError, match="line break"):
                await sent(upstream, [(name, value)])
    assert [request.header(b"x-a") for request in upstream.requests] == [b"caf\xe9"]


async def test_interim_answers_are_passed_over() -> None:
    script = [b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n", *json_reply({"n": 1})]
    async with ScriptedUpstream(script) as upstream:
        assert (await sent(upstream, [])).status == 200


Takes = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def upstream_that(takes: Takes) -> AsyncIterator[str]:
    """The base URL of a server that has small buffers and treats its one connection like this."""
    server = await asyncio.start_server(takes, "127.0.0.1", 0, limit=1_000)
    server.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


LARGE = b"x" * 8_000_000


async def test_an_answer_that_comes_before_the_request_is_out_is_given_and_ends_the_connection() -> None:
    async def early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.writelines([part for part in reply(413, b"too large") if isinstance(part, bytes)])
        await asyncio.sleep(1)
        writer.close()

    session = open_session()
    async with upstream_that(early) as origin:
        answer = await post(session, f"{origin}/x", [], LARGE, URL_TIMEOUTS)
        assert (answer.status, await answer.content.read()) == (413, b"too large")
        assert answer.connection is None, "the answer has ended"
        assert not session.connector._conns  # type: ignore[union-attr]
        await session.close()


async def test_silence_is_measured_from_when_the_request_is_out() -> None:
    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(1.5)  # more than the read timeout
        await reader.readexactly(len(LARGE))
        writer.writelines([part for part in json_reply({"n": 1}) if isinstance(part, bytes)])
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(len(LARGE))
        await asyncio.sleep(3)  # of silence
        writer.close()

    session, timeouts = open_session(), aiohttp.ClientTimeout(sock_read=1)
    async with upstream_that(slowly) as origin:
        answer = await post(session, f"{origin}/x", [], LARGE, timeouts)
        assert await answer.content.read() == b'{"n":1}'
        with pytest.raises(aiohttp.SocketTimeoutError):
            await post(session, f"{origin}/x", [], LARGE, timeouts)
        await session.close()


@pytest.mark.parametrize("first_s", [0.1, 600.0])
async def test_each_request_on_a_connection_has_its_own_read_timeout(first_s: float) -> None:
    session = open_session()
    async with ScriptedUpstream(json_reply({"n": 1}), [Pause(0.4), *json_reply({"n": 2})], [STALL]) as upstream:
        for read_s, number in ((first_s, 1), (2.0, 2)):
            timeouts = aiohttp.ClientTimeout(sock_read=read_s)
            answer = await post(session, f"{upstream.base_url}/x", [], b"", timeouts)
            assert await answer.content.read() == b'{"n":%d}' % number
        async with asyncio.timeout(2):
            with pytest.raises(aiohttp.SocketTimeoutError):
                await post(session, f"{upstream.base_url}/x", [], b"", aiohttp.ClientTimeout(sock_read=0.2))
        assert upstream.connections == 1
        await session.close()


async def test_a_connection_that_has_ended_is_held_by_no_timer() -> None:
    session = open_session()
    async with ScriptedUpstream(sse_reply(b"1", STALL)) as upstream:
        answer = await post(session, f"{upstream.base_url}/x", [], b"", aiohttp.ClientTimeout(sock_read=600))
        assert answer.connection is not None
        held = weakref.ref(answer.connection.protocol)
        answer.close()
        del answer
        await session.close()
    await asyncio.sleep(0.05)
    gc.collect()
    assert held() is None


async def test_who_leaves_while_the_request_is_written_closes_the_connection() -> None:
    left = asyncio.Event()

    async def stalled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.3)
        while await reader.read(1 << 20):
            pass
        left.set()
        writer.close()

    session = open_session()
    async with upstream_that(stalled) as origin:
        sending = asyncio.ensure_future(post(session, f"{origin}/x", [], LARGE, URL_TIMEOUTS))
        await asyncio.sleep(0.1)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        async with asyncio.timeout(2):
            await left.wait()
        await session.close()


async def test_an_upgrade_that_nobody_asked_for_is_an_error_and_ends_the_connection() -> None:
    script = [b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", Pause(1)]
    async with ScriptedUpstream(script) as upstream:
        session = open_session()
        answer = await post(session, f"{upstream.base_url}/x", [], b"", URL_TIMEOUTS)
        assert answer.status == 101
        assert not session.connector._conns  # type: ignore[union-attr]
        await session.close()
        client, settings = Client(), UpstreamSettings(name="test", base_url=upstream.base_url)
        with pytest.raises(UpstreamUnreachable):
            await client.send(settings, "POST", "/v1/x", b"", [], b"{}")
        await client.aclose()


async def test_a_connection_that_was_closed_while_it_waited_is_not_used() -> None:
    async with ScriptedUpstream([*json_reply({"n": 1}), CLOSE]) as upstream:
        session = open_session()
        for _ in range(3):
            answer = await post(session, f"{upstream.base_url}/x", [], b"{}", URL_TIMEOUTS)
            assert await answer.content.read() == b'{"n":1}'
            await asyncio.sleep(0.02)
        await session.close()
    assert upstream.connections == 3


async def test_who_waits_for_an_answer_that_is_closed_gets_an_error() -> None:
    async with ScriptedUpstream(sse_reply(b"1", STALL)) as upstream:
        session = open_session()
        answer = await post(session, f"{upstream.base_url}/x", [], b"", URL_TIMEOUTS)
        waiting = asyncio.ensure_future(answer.content.readexactly(100))
        await asyncio.sleep(0.05)
        answer.close()
        with pytest.raises(aiohttp.ClientConnectionError):
            await waiting
        await session.close()
