"""The client against a real loopback upstream: bytes as they are, tries where they are safe, clean ends."""

from __future__ import annotations

import asyncio
import gzip
import socket
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
    Received,
    ScriptedUpstream,
    closed_port,
    json_reply,
    reply,
    sse_reply,
)
from trimtab.errors import InvalidRequest, UpstreamTimeout, UpstreamUnreachable
from trimtab.upstream.answer import Answer
from trimtab.upstream.client import Client
from trimtab.upstream.headers import to_upstream
from trimtab.upstream.settings import UpstreamSettings

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
BODY = b'{"model":"m","messages":[]}'


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    client = Client()
    yield client
    await client.aclose()


def settings(base_url: str, **more: object) -> UpstreamSettings:
    return UpstreamSettings(name="here", base_url=base_url, **more)  # type: ignore[arg-type]


async def call(client: Client, upstream: UpstreamSettings, path: str = CHAT, **more: object) -> Answer:
    given = {"method": "POST", "query": b"", "headers": [], "body": BODY, **more}
    return await client.send(upstream, path=path, **given)  # type: ignore[arg-type]


async def text(answer: Answer) -> bytes:
    async with answer:
        return b"".join([chunk async for chunk in answer.chunks()])


async def slowly(answer: Answer, into: list[bytes]) -> None:
    """Take the chunks as a slow client does, so that the connection can break in between."""
    async for chunk in answer.chunks():
        into.append(chunk)
        await asyncio.sleep(0.2)


async def test_what_is_sent_is_exactly_what_was_given(client: Client) -> None:
    async with ScriptedUpstream() as server:
        upstream = settings(server.base_url)
        headers = to_upstream(
            [(b"x-twice", b"1"), (b"cookie", b"a=b"), (b"x-twice", b"2"), (b"x-accent", "é".encode())],
            upstream=upstream,
            content_length=len(BODY),
        )
        await text(await call(client, upstream, query=b"a=%7E&b=%2F", headers=headers))
    assert server.requests[0].raw == (
        b"POST /v1/chat/completions?a=%%7E&b=%%2F HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n"
        b"x-twice: 1\r\ncookie: a=b\r\nx-twice: 2\r\nx-accent: \xc3\xa9\r\ncontent-length: 27\r\n\r\n%s"
        % (server.port, BODY)
    )


async def test_a_get_without_a_body_states_no_length(client: Client) -> None:
    async with ScriptedUpstream() as server:
        await text(await call(client, settings(server.base_url), "/v1/models", method="GET", body=b""))
    assert server.requests[0].header(b"content-length") is None
    assert server.requests[0].target == "/v1/models"


async def test_a_streamed_body_goes_out_chunked_as_it_comes(client: Client) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for part in (b"one", b"two"):
            yield part

    async with ScriptedUpstream() as server:
        await text(await call(client, settings(server.base_url), "/v1/files", body=parts()))
        stated = [(b"content-length", b"6")]
        await text(await call(client, settings(server.base_url), "/v1/files", body=parts(), headers=stated))
    assert [request.body for request in server.requests] == [b"onetwo", b"onetwo"]
    assert server.requests[0].header(b"transfer-encoding") == b"chunked"
    assert server.requests[1].all(b"content-length") == [b"6"]


async def test_the_answer_is_given_as_it_came(client: Client) -> None:
    answers = [(b"set-cookie", b"a=1"), (b"Set-Cookie", b"b=2"), (b"x-request-id", b"req")]
    async with ScriptedUpstream(json_reply({"n": 1}, 429, answers, gzip=True)) as server:
        answer = await call(client, settings(server.base_url))
        body = await text(answer)
        await text(await call(client, settings(server.base_url)))
    assert answer.status == 429
    assert answer.headers[1:4] == [(name.lower(), value) for name, value in answers]
    assert answer.fields[b"set-cookie"] == b"a=1"
    assert (b"content-encoding", b"gzip") in answer.headers
    assert gzip.decompress(body) == b'{"n":1}'
    assert server.requests[1].header(b"cookie") is None, "no cookies are kept"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirects_are_not_followed(client: Client, status: int) -> None:
    async with ScriptedUpstream(reply(status, headers=[(b"location", b"/elsewhere")])) as server:
        answer = await call(client, settings(server.base_url))
        await answer.aclose()
    assert answer.status == status
    assert len(server.requests) == 1


async def test_connections_are_reused(client: Client) -> None:
    async with ScriptedUpstream(sse_reply(b'{"a":1}')) as server:
        for _ in range(5):
            await text(await call(client, settings(server.base_url)))
    assert server.connections == 1


async def test_chunks_come_as_soon_as_they_arrive(client: Client) -> None:
    async with ScriptedUpstream(sse_reply(b"1", Pause(0.05), b"2", Pause(0.05), b"3", STALL)) as server:
        answer = await call(client, settings(server.base_url))
        chunks = answer.chunks()
        assert [await anext(chunks) for _ in range(3)] == [b"data: %d\n\n" % n for n in (1, 2, 3)]
        await answer.aclose()


@pytest.mark.parametrize("split", [1, 2, 3])
async def test_any_fragmentation_gives_the_same_bytes(client: Client, split: int) -> None:
    event = '{"content":"北京 🛥"}'.encode()
    async with ScriptedUpstream(sse_reply(event, split=split)) as server:
        assert await text(await call(client, settings(server.base_url))) == (
            b"data: " + event + b"\n\ndata: [DONE]\n\n"
        )


async def test_read_stops_at_its_limit_and_consumes_nothing(client: Client) -> None:
    async with ScriptedUpstream(reply(400, b"x" * 300_000, split=50_000), reply(400, b"short")) as server:
        long = await call(client, settings(server.base_url))
        head = await long.read(limit=10)
        assert 10 <= len(head) < 300_000
        assert not long.complete
        assert await text(long) == b"x" * 300_000
        short = await call(client, settings(server.base_url))
        assert await short.read(limit=10) == b"short"
        assert short.complete
        assert await text(short) == b"short"


async def test_an_answer_left_early_closes_the_upstream_connection(client: Client) -> None:
    async with ScriptedUpstream(sse_reply(b"1", STALL)) as server:
        async with await call(client, settings(server.base_url)) as answer:
            async for _ in answer.chunks():
                break
        await asyncio.wait_for(server.left.wait(), 1)


@pytest.mark.parametrize("script", [[STALL], sse_reply(STALL), sse_reply(b"1", STALL)])
async def test_cancelling_the_task_closes_the_upstream_connection(client: Client, script: list[bytes]) -> None:
    async with ScriptedUpstream(script) as server:

        async def use() -> None:
            async with await call(client, settings(server.base_url)) as answer:
                async for _ in answer.chunks():
                    pass

        task = asyncio.create_task(use())
        while not server.requests:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait_for(server.left.wait(), 1)
        assert await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("end", [CLOSE, RESET])
async def test_an_answer_that_breaks_off_gives_what_had_arrived_and_then_raises(client: Client, end: object) -> None:
    async with ScriptedUpstream(sse_reply(b"1", b"[DONE]", Pause(0.1), end)) as server:  # type: ignore[arg-type]
        answer = await call(client, settings(server.base_url))
        got: list[bytes] = []
        with pytest.raises(UpstreamUnreachable, match=r"'here' \(.*\) broke off"):
            await slowly(answer, into=got)
    assert b"".join(got) == b"data: 1\n\ndata: [DONE]\n\n"
    assert len(server.requests) == 1


async def test_silence_in_the_middle_of_an_answer_is_a_timeout(client: Client) -> None:
    async with ScriptedUpstream(sse_reply(b"1", STALL)) as server:
        answer = await call(client, settings(server.base_url, read_timeout_s=0.2))
        chunks = answer.chunks()
        assert await anext(chunks) == b"data: 1\n\n"
        with pytest.raises(UpstreamTimeout, match=r"sent nothing for 0\.2 s"):
            await anext(chunks)
        await asyncio.wait_for(server.left.wait(), 1)


async def test_a_whole_answer_may_take_longer_than_the_read_timeout(client: Client) -> None:
    steps = [step for n in range(4) for step in (b"%d" % n, Pause(0.15))]
    async with ScriptedUpstream(sse_reply(*steps)) as server:
        body = await text(await call(client, settings(server.base_url, read_timeout_s=0.4)))
    assert body.endswith(b"[DONE]\n\n")


async def test_silence_before_the_answer_is_a_timeout_and_is_not_retried(client: Client) -> None:
    async with ScriptedUpstream([STALL]) as server:
        with pytest.raises(UpstreamTimeout, match="sent nothing"):
            await call(client, settings(server.base_url, read_timeout_s=0.2))
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_a_short_outage_is_hidden(client: Client, status: int) -> None:
    async with ScriptedUpstream(reply(status), reply(status), json_reply({"ok": True})) as server:
        answer = await call(client, settings(server.base_url))
        assert await text(answer) == b'{"ok":true}'
    assert answer.status == 200
    assert len({request.raw for request in server.requests}) == 1
    assert len(server.requests) == 3


async def test_when_the_retries_run_out_the_last_answer_is_relayed(client: Client) -> None:
    async with ScriptedUpstream(reply(503, b"first"), reply(503, b"last")) as server:
        answer = await call(client, settings(server.base_url, retries=1))
        assert (answer.status, await text(answer)) == (503, b"last")
    assert len(server.requests) == 2


NOT_RETRIED = {
    "400": (reply(400), CHAT, BODY),
    "404": (reply(404), CHAT, BODY),
    "429": (reply(429, headers=[(b"retry-after", b"0")]), CHAT, BODY),
    "500": (reply(500), CHAT, BODY),
    "529": (reply(529), CHAT, BODY),
    "a long retry-after": (reply(503, headers=[(b"retry-after", b"30")]), CHAT, BODY),
    "a retry-after date": (
        reply(503, headers=[(b"Retry-After", b"Fri, 31 Dec 1999 23:59:59 GMT")]),
        CHAT,
        BODY,
    ),
    "a long retry-after-ms": (reply(503, headers=[(b"retry-after-ms", b"1500")]), CHAT, BODY),
    "retry-after-ms goes first": (
        reply(503, headers=[(b"retry-after", b"0"), (b"Retry-After-Ms", b"1500")]),
        CHAT,
        BODY,
    ),
    "x-should-retry": (reply(503, headers=[(b"X-Should-Retry", b"false")]), CHAT, BODY),
    "an overflow in a 503": (json_reply({"error": {"message": "prompt is too long: 9 tokens"}}, 503), CHAT, BODY),
    "an invalid request in a 502": (json_reply({"error": {"type": "invalid_request_error"}}, 502), CHAT, BODY),
    "a POST that creates": (reply(503), "/v1/batches", BODY),
}


@pytest.mark.parametrize(("script", "path", "body"), NOT_RETRIED.values(), ids=NOT_RETRIED)
async def test_answers_that_are_not_retried(client: Client, script: list[bytes], path: str, body: bytes) -> None:
    async with ScriptedUpstream(script) as server:
        answer = await call(client, settings(server.base_url), path, body=body)
        await answer.aclose()
    assert len(server.requests) == 1


async def test_a_short_wait_that_is_asked_for_is_kept(client: Client) -> None:
    asked = reply(503, headers=[(b"retry-after-ms", b"700")])
    async with ScriptedUpstream(asked, json_reply({"ok": True})) as server:
        began = asyncio.get_running_loop().time()
        answer = await call(client, settings(server.base_url))
        assert asyncio.get_running_loop().time() - began >= 0.7
        assert await text(answer) == b'{"ok":true}'


async def test_of_an_answer_that_is_not_retried_no_byte_is_lost(client: Client) -> None:
    script = json_reply({"error": {"message": "prompt is too long: 9 tokens"}}, 503)
    async with ScriptedUpstream(script) as server:
        answer = await call(client, settings(server.base_url))
        assert b"prompt is too long" in await text(answer)
        assert answer.complete


async def test_no_retries_means_one_try(client: Client) -> None:
    async with ScriptedUpstream(reply(503)) as server:
        await (await call(client, settings(server.base_url, retries=0))).aclose()
    assert len(server.requests) == 1


@pytest.mark.parametrize("end", [CLOSE, RESET])
async def test_a_connection_that_closes_without_an_answer_is_retried(client: Client, end: object) -> None:
    async with ScriptedUpstream([end], json_reply({"ok": True})) as server:  # type: ignore[list-item]
        assert await text(await call(client, settings(server.base_url))) == b'{"ok":true}'
    assert len(server.requests) == 2


@pytest.mark.parametrize("end", [CLOSE, RESET])
async def test_a_request_that_may_have_created_something_is_not_retried(client: Client, end: object) -> None:
    async with ScriptedUpstream([end]) as server:  # type: ignore[list-item]
        with pytest.raises(UpstreamUnreachable, match="closed the connection"):
            await call(client, settings(server.base_url), "/v1/files")
    assert len(server.requests) == 1


async def test_a_streamed_body_once_started_is_not_sent_again(client: Client) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield BODY

    async with ScriptedUpstream(reply(503, b"busy")) as server:
        answer = await call(client, settings(server.base_url), body=parts())
        assert (answer.status, await text(answer)) == (503, b"busy")
    assert len(server.requests) == 1


async def test_the_error_of_a_client_that_stops_sending_is_raised_as_it_is(client: Client) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"half"
        raise InvalidRequest("the client left")

    async with ScriptedUpstream() as server:
        with pytest.raises(InvalidRequest, match="the client left"):
            await call(client, settings(server.base_url), body=parts())
        assert server.requests == []


async def test_an_upstream_that_comes_up_late_is_reached(client: Client) -> None:
    port = closed_port()
    upstream = settings(f"http://127.0.0.1:{port}/v1", retries=4)
    waiting = asyncio.create_task(call(client, upstream, "/v1/files"))
    await asyncio.sleep(0.1)
    async with ScriptedUpstream(port=port) as server:
        await text(await waiting)
    assert len(server.requests) == 1


async def test_a_closed_port_is_a_clear_error(client: Client) -> None:
    url = f"http://127.0.0.1:{closed_port()}/v1"
    upstream = settings(url, retries=0, api_key="sk-secret")
    named = rf"'here' \({url}\) cannot be reached: connection refused\. Check base_url"
    with pytest.raises(UpstreamUnreachable, match=named) as caught:
        await call(client, upstream)
    assert "sk-secret" not in str(caught.value)


async def test_a_name_that_does_not_resolve_is_a_clear_error(client: Client) -> None:
    with pytest.raises(UpstreamUnreachable, match="cannot be resolved"):
        await call(client, settings("http://nowhere.invalid/v1", retries=0))


async def test_an_upstream_that_does_not_speak_http_is_a_clear_error(client: Client) -> None:
    async with ScriptedUpstream([b"SSH-2.0-OpenSSH_9\r\n\r\n", CLOSE]) as server:
        with pytest.raises(UpstreamUnreachable, match="did not answer with HTTP"):
            await call(client, settings(server.base_url))
    assert len(server.requests) == 1


async def test_tls_is_verified_unless_configured_otherwise(client: Client, tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    async with ScriptedUpstream(json_reply(1), tls=context) as server:
        assert await text(await call(client, settings(server.base_url, ca_file=str(certificate)))) == b"1"
        assert await text(await call(client, settings(server.base_url, verify_tls=False))) == b"1"
        with pytest.raises(UpstreamUnreachable, match="Set ca_file"):
            await call(client, settings(server.base_url))


async def test_a_ca_file_that_cannot_be_read_is_a_clear_error(client: Client, tmp_path: Path) -> None:
    (tmp_path / "text.pem").write_text("not a certificate")
    for name in ("nowhere.pem", "text.pem"):
        upstream = settings("https://127.0.0.1:9/v1", ca_file=str(tmp_path / name))
        with pytest.raises(UpstreamUnreachable, match=rf"a ca_file that cannot be read \(.*{name}: "):
            await call(client, upstream)


async def test_upstreams_with_the_same_tls_settings_share_a_session(client: Client) -> None:
    one, other = settings("https://one.example/v1"), settings("https://other.example/v1")
    assert client.session(one) is client.session(other)
    assert client.session(one) is not client.session(settings("https://one.example/v1", verify_tls=False))


async def test_https_to_a_plain_server_is_a_clear_error(client: Client) -> None:
    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(UpstreamUnreachable, match="failed the TLS handshake"):
            await call(client, settings(f"https://127.0.0.1:{port}/v1", retries=0))


async def test_large_response_headers_are_read(client: Client) -> None:
    async with ScriptedUpstream(reply(200, headers=[(b"x-long", b"a" * 30_000)])) as server:
        answer = await call(client, settings(server.base_url))
        assert (b"x-long", b"a" * 30_000) in answer.headers
        await answer.aclose()


async def test_environment_proxies_and_a_total_timeout_do_not_apply() -> None:
    client = Client()
    async with ScriptedUpstream(lambda request: json_reply(_seen(request))) as server:
        assert await text(await call(client, settings(server.base_url))) == b'["Host","Content-Length"]'
        session = client.session(settings(server.base_url))
        assert session.trust_env is False
        assert session.timeout.total is None
    await client.aclose()


@pytest.mark.parametrize("credentials", ["", "user:word@"])
async def test_a_configured_proxy_is_gone_through(client: Client, credentials: str) -> None:
    async with ScriptedUpstream(json_reply(1)) as server, ForwardProxy() as proxy:
        address = proxy.url.replace("//", f"//{credentials}")
        assert await text(await call(client, settings(server.base_url, proxy=address))) == b"1"
        assert await text(await call(client, settings(server.base_url))) == b"1"
    assert proxy.asked == [f"POST {server.base_url}/chat/completions HTTP/1.1"]
    assert (b"proxy-authorization: basic" in proxy.heads[0].lower()) is bool(credentials)
    assert [request.target for request in server.requests] == ["/v1/chat/completions"] * 2


async def test_https_goes_through_a_tunnel_of_the_proxy(client: Client, tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    async with ScriptedUpstream(json_reply(1), tls=context) as server, ForwardProxy() as proxy:
        upstream = settings(server.base_url, ca_file=str(certificate), proxy=proxy.url, api_key="sk-secret")
        assert await text(await call(client, upstream)) == b"1"
    assert proxy.asked == [f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"]
    assert b"sk-secret" not in b"".join(proxy.heads)


async def test_a_proxy_that_is_away_or_refuses_is_named(client: Client) -> None:
    away = settings("https://127.0.0.1:9/v1", proxy=f"http://127.0.0.1:{closed_port()}", retries=0)
    with pytest.raises(UpstreamUnreachable, match="its proxy cannot be reached: connection refused"):
        await call(client, away)
    async with ForwardProxy(b"403 Forbidden") as proxy:
        with pytest.raises(UpstreamUnreachable, match="its proxy refuses to connect: it answers 403"):
            await call(client, settings("https://127.0.0.1:9/v1", proxy=proxy.url, retries=0))


async def test_keepalive_is_on_for_the_socket(client: Client) -> None:
    async with ScriptedUpstream(sse_reply(b"1", STALL)) as server:
        answer = await call(client, settings(server.base_url))
        connection = answer._response.connection
        assert connection is not None
        assert connection.transport is not None
        used = connection.transport.get_extra_info("socket")
        assert used.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        await answer.aclose()


def _seen(request: Received) -> list[str]:
    return [name.decode() for name, _ in request.headers]


async def test_a_large_body_goes_out_whole_and_again_where_it_is_tried_again(client: Client) -> None:
    body = bytes(range(256)) * 12_345
    async with ScriptedUpstream(reply(503), reply(200, b"ok")) as upstream:
        headers = to_upstream([], upstream=settings(upstream.base_url), content_length=len(body))
        assert await text(await call(client, settings(upstream.base_url), body=body, headers=headers)) == b"ok"
    assert [r.body == body for r in upstream.requests] == [True, True]
    assert [r.all(b"content-length") for r in upstream.requests] == [[b"%d" % len(body)]] * 2
    assert not [r for r in upstream.requests if r.header(b"transfer-encoding")]
