"""Requests as no client should make them: each is answered in a defined way, at once, and none is taken for another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from tests.support.chat import COMPLETION, WINDOW
from tests.support.odd_requests import ROWS, Row, get
from tests.support.raw import BODY, exchange, opened, request
from tests.support.running import Running, running
from tests.support.scripted import CLOSE, Pause, Received, ScriptedUpstream, Step, chunk, json_reply
from trimtab.errors import UploadTimeout
from trimtab.server.asgi import RequestBody
from trimtab.server.load import Load
from trimtab.server.watch import Watches

pytestmark = pytest.mark.anyio


def bodiless(_: Received) -> list[Step]:
    """An answer in which a HEAD and a GET look the same."""
    return [b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 0\r\n\r\n"]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[tuple[Running, ScriptedUpstream]]:
    """One proxy for the whole table, which is a test too: no row may leave it worse."""
    async with (
        ScriptedUpstream(bodiless) as upstream,
        running(upstream.base_url, "[server]\nmax_body_mb = 1\n") as proxy,
    ):
        yield proxy, upstream


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
async def test_an_odd_request_is_answered_in_a_defined_way(row: Row, house: tuple[Running, ScriptedUpstream]) -> None:
    proxy, upstream = house
    before = len(upstream.requests)
    answer = await exchange(proxy.url, row.data)
    asked = upstream.requests[before:]
    assert (answer.status, tuple(r.target for r in asked)) == (row.status, row.asked), answer.raw
    assert answer.ended
    assert all(r.header(b"host") == upstream.origin.removeprefix("http://").encode() for r in asked)
    assert not any(r.header(b"authorization") for r in asked)
    assert (await exchange(proxy.url, request())).status == 200
    assert '"level":"error"' not in proxy.log.getvalue()


async def test_head_is_answered_by_the_head_alone() -> None:
    async with ScriptedUpstream(bodiless) as upstream, running(upstream.base_url) as proxy:
        for path in (b"/v1/chat/completions", b"/healthz/live", b"/nowhere"):
            answer = await exchange(proxy.url, get(path, method=b"HEAD"))
            assert answer.body == b""
            assert answer.status in (200, 404, 405)


async def test_other_spellings_of_the_path_are_managed_too() -> None:
    """Else a client that writes a slash too many would lose its shaping without a word."""
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        for path in (
            b"/v1//chat/completions",
            b"/v1/chat/completions/",
            b"/v1/chat%2Fcompletions",
            b"/v1/%63hat/completions",
        ):
            answer = await exchange(proxy.url, request(path))
            assert b"x-trimtab-tokens" in answer.raw
    assert len(upstream.requests) == 4


async def test_a_client_that_leaves_in_the_middle_of_its_upload_calls_no_one_and_alarms_no_one() -> None:
    async with ScriptedUpstream() as upstream, running(upstream.base_url) as proxy:
        _, writer = await opened(proxy.url)
        writer.write(request()[:-20])
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.close()
        await asyncio.sleep(0.2)
        log = proxy.log.getvalue()
    assert upstream.requests == []
    line = msgspec.json.decode(log)
    assert (line["outcome"], line["level"]) == ("abandoned", "info")


async def test_a_slow_upload_arrives_and_one_that_stops_gives_its_place_back() -> None:
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url) as proxy:
        reader, writer = await opened(proxy.url)
        for byte in request():
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.001)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
    assert upstream.requests[0].body == BODY

    async def never() -> dict[str, object]:
        await asyncio.sleep(60)
        return {}

    stuck, watches, task = RequestBody(never, {}, Load(1, 1), 1, pause_s=0.01), Watches(), asyncio.current_task()
    assert task is not None
    watch = watches.begin(task, stuck, never)
    with pytest.raises(UploadTimeout):
        await stuck.read()
    watches.end(watch)


async def test_a_half_closed_client_is_a_client_that_has_left() -> None:
    """HTTP/1.1 allows to close the sending half and still read; the server takes it for leaving, as most do."""
    slow = [Pause(0.3), *json_reply(COMPLETION)]
    async with ScriptedUpstream(slow, json_reply(COMPLETION)) as upstream, running(upstream.base_url) as proxy:
        reader, writer = await opened(proxy.url)
        writer.write(request(extra=b""))
        await asyncio.sleep(0.15)
        writer.write_eof()
        async with asyncio.timeout(5):
            told = await reader.read()
        writer.close()
        assert told.startswith((b"HTTP/1.1 400", b"HTTP/1.1 200")) or not told
        await exchange(proxy.url, request(extra=b""), half=True)
        broken = await exchange(proxy.url, request(extra=b"")[:-10], half=True)
        assert broken.status in (0, 400)
        assert (await exchange(proxy.url, request())).status == 200
    assert all(r.body == BODY for r in upstream.requests)


async def test_an_answer_that_breaks_off_is_not_ended_as_if_it_were_whole() -> None:
    whole = [b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ntransfer-encoding: chunked\r\n\r\n"]
    script = [*whole, chunk(b"half of a file"), CLOSE]
    async with ScriptedUpstream(script) as upstream, running(upstream.base_url) as proxy:
        answer = await exchange(proxy.url, request(b"/v1/files", extra=b""))
    assert answer.ended
    assert b"half of a file" in answer.raw
    assert not answer.raw.endswith(b"0\r\n\r\n")
