"""Calls of our own: the bytes of the relay's client, its sessions, its errors; httpx adds nothing and keeps nothing."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.certificates import self_signed
from tests.support.forward_proxy import ForwardProxy
from tests.support.scripted import (
    CLOSE,
    RESET,
    STALL,
    Pause,
    Script,
    ScriptedUpstream,
    Step,
    chunk,
    closed_port,
    json_reply,
    reply,
)
from trimtab.errors import InvalidRequest, UpstreamTimeout, UpstreamUnreachable
from trimtab.upstream.client import Client
from trimtab.upstream.headers import to_upstream
from trimtab.upstream.own_calls import OwnCalls, Reply
from trimtab.upstream.settings import UpstreamSettings

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
BODY = b'{"model":"m","messages":[]}'
LIMIT = 1 << 20


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    made = Client()
    yield made
    await made.aclose()


def settings(base_url: str, **more: object) -> UpstreamSettings:
    return UpstreamSettings(name="here", base_url=base_url, **more)  # type: ignore[arg-type]


async def ask(
    client: Client, upstream: UpstreamSettings, method: str = "POST", path: str = CHAT, limit: int = LIMIT
) -> Reply:
    body = BODY if method == "POST" else b""
    headers = to_upstream([(b"x-accent", "é".encode())], upstream=upstream, content_length=len(body), identity=True)
    return await OwnCalls(client).ask(upstream, method, path, headers, body, limit=limit)


@pytest.mark.parametrize(("method", "path"), [("POST", CHAT), ("GET", "/v1/models"), ("POST", "/api/show")])
@pytest.mark.parametrize("base", ["/v1", "/a%2Fb/~x/v1", ""])
async def test_the_bytes_are_those_of_the_relays_client(client: Client, method: str, path: str, base: str) -> None:
    async with ScriptedUpstream() as server:
        upstream = settings(server.origin + base, api_key="sk-1", headers={"X-Team": "core"})
        await ask(client, upstream, method, path)
        body = BODY if method == "POST" else b""
        pairs = [(b"x-accent", "é".encode())]
        headers = to_upstream(pairs, upstream=upstream, content_length=len(body), identity=True)
        async with await client.send(upstream, method, path, b"", headers, body) as answer:
            await answer.read(LIMIT)
    ours, relayed = server.requests
    assert ours.raw == relayed.raw
    assert server.connections == 1, "both use the same session"


async def test_an_answer_is_read_whole(client: Client) -> None:
    async with ScriptedUpstream(json_reply({"a": 1}, 201, [(b"x-own", b"1")])) as server:
        got = await ask(client, settings(server.base_url))
    assert (got.status, got.body) == (201, b'{"a":1}')
    assert got.fields[b"x-own"] == b"1"


BROKEN_GZIP = reply(200, b"not gzip", headers=[(b"content-encoding", b"gzip")])
BOMB = reply(200, gzip.compress(b"\0" * 5_000_000), headers=[(b"content-encoding", b"gzip")])
BODIES = [
    (json_reply({"a": 1}, gzip=True), b'{"a":1}'),
    (BROKEN_GZIP, b""),
    (BOMB, b""),
    (reply(204), b""),
]


@pytest.mark.parametrize(("script", "body"), BODIES, ids=["gzip", "broken", "a bomb", "none"])
async def test_a_body_is_decoded_or_empty(client: Client, script: Script, body: bytes) -> None:
    async with ScriptedUpstream(script) as server:
        assert (await ask(client, settings(server.base_url))).body == body


async def test_a_long_answer_is_cut_off_and_its_connection_closed(client: Client) -> None:
    endless: list[Step] = [b"HTTP/1.1 200 OK\r\ncontent-length: 9000000\r\n\r\n" + b"x" * 300_000, STALL]
    async with ScriptedUpstream(endless) as server:
        got = await ask(client, settings(server.base_url), limit=100_000)
        assert 100_000 <= len(got.body) < 200_000
        await asyncio.wait_for(server.left.wait(), 1)


async def test_nothing_is_added_followed_or_kept(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    moved = reply(302, headers=[(b"location", b"/elsewhere"), (b"set-cookie", b"a=1")])
    async with ScriptedUpstream(moved, json_reply({})) as server:
        own, upstream = OwnCalls(client), settings(server.base_url)
        first = await own.ask(upstream, "GET", "/v1/models", [], b"", limit=LIMIT)
        await own.ask(upstream, "GET", "/v1/models", [], b"", limit=LIMIT)
    assert first.status == 302
    assert [[name.lower() for name, _ in request.headers] for request in server.requests] == [[b"host"], [b"host"]]
    assert [request.target for request in server.requests] == ["/v1/models", "/v1/models"]


async def test_tls_follows_the_settings_of_each_upstream(client: Client, tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    async with ScriptedUpstream(json_reply(1), tls=context) as server:
        assert (await ask(client, settings(server.base_url, ca_file=str(certificate)))).body == b"1"
        assert (await ask(client, settings(server.base_url, verify_tls=False))).body == b"1"
        with pytest.raises(UpstreamUnreachable, match="Set ca_file"):
            await ask(client, settings(server.base_url))


SILENT: dict[str, list[Step]] = {
    "before the answer": [STALL],
    "in its middle": [b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12", STALL],
}


@pytest.mark.parametrize("script", SILENT.values(), ids=SILENT)
async def test_silence_is_a_timeout(client: Client, script: list[Step]) -> None:
    async with ScriptedUpstream(script) as server:
        with pytest.raises(UpstreamTimeout, match=r"sent nothing for 0\.2 s"):
            await ask(client, settings(server.base_url, read_timeout_s=0.2))
    assert len(server.requests) == 1


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
BROKEN: dict[str, tuple[list[Step], str]] = {
    "a close": ([CLOSE], "closed the connection"),
    "a reset": ([RESET], "closed the connection"),
    "not HTTP": ([b"SSH-2.0-OpenSSH_9\r\n\r\n", CLOSE], "did not answer with HTTP"),
    "half an answer": ([b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12", CLOSE], "broke off"),
    "broken framing": ([CHUNKED, chunk(b"one"), Pause(0.05), b"zz\r\n", STALL], "broke off"),
}


@pytest.mark.parametrize(("script", "message"), BROKEN.values(), ids=BROKEN)
async def test_every_failure_is_one_of_the_tree(client: Client, script: list[Step], message: str) -> None:
    async with ScriptedUpstream(script) as server:
        with pytest.raises(UpstreamUnreachable, match=rf"'here' \(.*\) {message}"):
            await asyncio.wait_for(ask(client, settings(server.base_url, retries=0)), 2)


async def test_an_upstream_that_is_not_there(client: Client) -> None:
    for url, message in [
        (f"http://127.0.0.1:{closed_port()}/v1", "cannot be reached"),
        ("http://nowhere.invalid/v1", "cannot be resolved"),
    ]:
        with pytest.raises(UpstreamUnreachable, match=message):
            await ask(client, settings(url, retries=0))


async def test_a_configured_proxy_is_gone_through(client: Client) -> None:
    async with ScriptedUpstream(json_reply(1), json_reply(2)) as server, ForwardProxy() as proxy:
        assert (await ask(client, settings(server.base_url, proxy=proxy.url))).body == b"1"
        assert (await ask(client, settings(server.base_url))).body == b"2"
    assert proxy.asked == [f"POST {server.base_url}/chat/completions HTTP/1.1"]


async def test_a_path_that_could_leave_the_base_is_refused(client: Client) -> None:
    with pytest.raises(InvalidRequest):
        await ask(client, settings("http://127.0.0.1:9/v1"), path="/v1/../admin")


@pytest.mark.parametrize("first", [reply(503), [CLOSE]], ids=["503", "closed"])
async def test_a_short_outage_is_hidden(client: Client, first: Script) -> None:
    async with ScriptedUpstream(first, json_reply({})) as server:
        assert (await ask(client, settings(server.base_url))).status == 200
    assert len(server.requests) == 2


async def test_when_the_retries_run_out_the_last_answer_counts(client: Client) -> None:
    async with ScriptedUpstream(reply(503, b"first"), reply(503, b"last")) as server:
        assert (await ask(client, settings(server.base_url, retries=1))).body == b"last"
    assert len(server.requests) == 2


async def test_cancelling_closes_the_connection(client: Client) -> None:
    async with ScriptedUpstream([b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12", STALL]) as server:
        task = asyncio.create_task(ask(client, settings(server.base_url)))
        while not server.requests:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait_for(server.left.wait(), 1)
        assert await asyncio.gather(task, return_exceptions=True)
