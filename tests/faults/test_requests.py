"""Requests as no client should make them: each is answered in a defined way, at once, and none is taken for another."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec
import pytest

from tests.exchange.test_gateway import COMPLETION, WINDOW
from tests.faults.raw import BODY, CLOSE_AFTER, exchange, opened, request
from tests.support.running import Running, running
from tests.support.scripted import CLOSE, Pause, Received, ScriptedUpstream, Step, chunk, json_reply
from trimtab.errors import UploadTimeout
from trimtab.server.asgi import Load, RequestBody
from trimtab.server.watch import Watches

pytestmark = pytest.mark.anyio

CHUNKED = CLOSE_AFTER + b"transfer-encoding: chunked\r\n"
BOTH = b"transfer-encoding: chunked\r\n"
CHAT = ("/v1/chat/completions",)
SMUGGLED = b"0\r\n\r\nGET /v1/smuggled HTTP/1.1\r\nhost: x\r\n\r\n"


@dataclass(frozen=True)
class Row:
    """A request, the status of its answer, and what the upstream is asked."""

    data: bytes
    status: int
    asked: tuple[str, ...] = ()


def get(path: bytes, extra: bytes = b"", method: bytes = b"GET") -> bytes:
    return request(path, b"", CLOSE_AFTER + extra, method)


ROWS = {
    # where it goes
    "absolute-form": Row(request(b"http://evil.example/v1/chat/completions"), 200, CHAT),
    "absolute-form, another scheme": Row(get(b"gopher://evil.example/v1/models"), 200, ("/v1/models",)),
    "two slashes before v1": Row(request(b"//v1/chat/completions"), 404),
    "two slashes within": Row(request(b"/v1//chat/completions"), 200, ("/v1//chat/completions",)),
    "a slash at the end": Row(request(b"/v1/chat/completions/"), 200, ("/v1/chat/completions/",)),
    "an escaped slash": Row(request(b"/v1/chat%2Fcompletions"), 200, ("/v1/chat%2Fcompletions",)),
    "v1 escaped": Row(request(b"/%76%31/chat/completions"), 404),
    "dots": Row(get(b"/v1/../metrics"), 400),
    "escaped dots": Row(get(b"/v1/%2e%2e/metrics"), 400),
    "dots between escaped slashes": Row(get(b"/v1/x%2f..%2f..%2fadmin"), 400),
    "v1 and an escaped slash": Row(get(b"/v1%2f..%2fadmin"), 404),
    "a fragment": Row(get(b"/v1/models#x"), 200, ("/v1/models",)),
    "letters that are not ASCII": Row(get("/v1/modèle".encode()), 400),
    "quotes in the query": Row(get(b'/v1/models?a="<>'), 400),
    "admin page as API": Row(get(b"/v1/metrics"), 200, ("/v1/metrics",)),
    "no path": Row(get(b"/"), 404),
    "asterisk": Row(get(b"*", method=b"OPTIONS"), 404),
    "CONNECT": Row(get(b"evil.example:443", method=b"CONNECT"), 404),
    "upgrade": Row(request(extra=b"connection: upgrade, close\r\nupgrade: websocket\r\n"), 200, CHAT),
    # methods
    "OPTIONS": Row(get(b"/v1/chat/completions", method=b"OPTIONS"), 200, CHAT),
    "PUT": Row(request(method=b"PUT"), 200, CHAT),
    "a method of their own": Row(request(method=b"BREW"), 200, CHAT),
    "POST to a page": Row(request(b"/metrics"), 405),
    "GET of the plan": Row(get(b"/v1/context/plan"), 400),
    # framing
    "HTTP/1.0": Row(request(version=b"HTTP/1.0", extra=b""), 200, CHAT),
    "HTTP/9.9": Row(request(version=b"HTTP/9.9"), 400),
    "HTTP/2 in the clear": Row(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0),
    "TLS to a plain port": Row(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 40, 400),
    "expect": Row(request(extra=CLOSE_AFTER + b"expect: 100-continue\r\n"), 200, CHAT),
    "two lengths": Row(request(extra=CLOSE_AFTER + b"content-length: 5\r\n"), 400),
    "a length that is none": Row(request(extra=b"content-length: -1\r\n", length=False), 400),
    "length and chunks": Row(request(b"/v1/embeddings", SMUGGLED, BOTH), 200, ("/v1/embeddings",)),
    "chunks twice over": Row(request(extra=CHUNKED + b"transfer-encoding: identity\r\n", length=False), 400),
    "an unknown transfer encoding": Row(request(extra=b"transfer-encoding: xchunked\r\n", length=False), 400),
    "a chunk size that is none": Row(request(body=b"zz\r\nhello\r\n0\r\n\r\n", extra=CHUNKED, length=False), 400),
    "a chunk longer than said": Row(request(body=b"5\r\nhellozz\r\n0\r\n\r\n", extra=CHUNKED, length=False), 400),
    "the same, passed through": Row(
        request(b"/v1/embeddings", b"5\r\nhellozz\r\n0\r\n\r\n", CHUNKED, length=False), 400
    ),
    "a chunk size beyond 64 bits": Row(request(body=b"f" * 17 + b"\r\n", extra=CHUNKED, length=False), 400),
    "trailers": Row(
        request(body=chunk(BODY) + b"0\r\nauthorization: Bearer x\r\n\r\n", extra=CHUNKED, length=False),
        200,
        CHAT,
    ),
    "a folded header": Row(get(b"/v1/models", b"x-a: b\r\n c\r\n"), 400),
    "a space before the colon": Row(get(b"/v1/models", b"x-a : b\r\n"), 400),
    "a bare CR in a header": Row(get(b"/v1/models", b"x-a: b\rc\r\n"), 400),
    "NUL in a header": Row(get(b"/v1/models", b"x-a: b\0c\r\n"), 400),
    "too many headers": Row(get(b"/v1/models", b"".join(b"x-%d: y\r\n" % i for i in range(500))), 431),
    "no host": Row(b"GET /v1/models HTTP/1.1\r\nconnection: close\r\n\r\n", 200, ("/v1/models",)),
    "two hosts": Row(get(b"/v1/models", b"host: evil.example\r\n"), 200, ("/v1/models",)),
    "a body with GET": Row(request(b"/v1/models", method=b"GET"), 200, ("/v1/models",)),
    "two at once": Row(
        request(extra=b"") + get(b"/v1/models"), 200, ("/v1/chat/completions", "/v1/models")
    ),
    # bodies
    "an unknown content encoding": Row(request(extra=CLOSE_AFTER + b"content-encoding: zstd\r\n"), 415),
    "several content encodings": Row(request(extra=CLOSE_AFTER + b"content-encoding: gzip, br\r\n"), 415),
    "gzip that is none": Row(request(extra=CLOSE_AFTER + b"content-encoding: gzip\r\n"), 400),
    "gzip cut short": Row(
        request(body=gzip.compress(BODY)[:-9], extra=CLOSE_AFTER + b"content-encoding: gzip\r\n"), 400
    ),
    "a compression bomb": Row(
        request(body=gzip.compress(b" " * (3 << 20)), extra=CLOSE_AFTER + b"content-encoding: gzip\r\n"), 413
    ),
    "a length beyond the bound": Row(request(extra=b"content-length: 99999999999\r\n", length=False), 413),
    "a length beyond 64 bits": Row(request(extra=b"content-length: " + b"9" * 30 + b"\r\n", length=False), 400),
}  # fmt: skip


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
