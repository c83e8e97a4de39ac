"""The wire: what an upstream or a client does there that others broke on, each through the running proxy."""

from __future__ import annotations

import hashlib
from typing import Any

import aiohttp
import msgspec
import pytest
from backports import zstd

from tests.cases.trial import tried, window
from tests.support.chat import COMPLETION, post
from tests.support.conversations import agent_run, chat
from tests.support.forward_proxy import ForwardProxy
from tests.support.running import running
from tests.support.scripted import Pause, Received, ScriptedUpstream, Step, chunk, json_reply, reply, sse_reply
from tests.support.streams import BEGUN, END
from tests.support.summary_models import OPENING
from trimtab.settings import parse

pytestmark = pytest.mark.anyio

CASES = {
    "N05": "the upstream's own usage chunk, with its cost, reaches a client that did not set stream_options",
    "N06": "a usage chunk that we asked for is taken out whatever its shape",
    "N07": "a stream_options of ours that does harm is taken back, once, and the upstream is remembered",
    "N08": "blank bytes that keep a long answer alive pass as they come",
    "N09": "nothing of ours goes into JSON under the label of an event stream",
    "N10": "a preflight needs no key, and errors of ours can be read by the page",
    "N11": "a summary call has the client's end-to-end headers and its query",
    "N12": "idle connections are kept longer than balancers keep them",
    "N15": "x-should-retry: false is obeyed: one call, the answer passed on",
    "N19": "a WebSocket upgrade is answered with 426 at once",
    "N20": "zstd request bodies are read where they are managed, and passed raw elsewhere",
    "N21": "the base URLs that people configure are managed",
    "N22": "an egress proxy can be named",
    "N23": "what clients ask at the server's root is passed through",
}
ONE: dict[str, Any] = {"model": "m", "messages": chat(1)}
STREAM = {**ONE, "stream": True}
ASKS = '[limits]\ndiscover = false\nask_usage = "auto"\n'
TOKEN = b'{"id":"c","choices":[{"index":0,"delta":{"content":"hi"}}]}'


def usage(choices: bytes, more: bytes = b"") -> bytes:
    return b'{"id":"c"%b,"usage":{"prompt_tokens":9,"completion_tokens":2%b}}' % (choices, more)


async def test_the_upstreams_own_usage_and_cost_reach_the_client() -> None:
    last = usage(b',"choices":[]', b',"cost":0.00123')
    trial = await tried({**STREAM, "usage": {"include": True}}, sse_reply(TOKEN, last), toml=ASKS, times=3)
    assert all(b'"cost":0.00123' in answer.body for answer in trial.answers)


@pytest.mark.parametrize("choices", [b',"choices":null', b"", b',"choices":[]'])
async def test_a_usage_that_we_asked_for_is_ours_whatever_its_shape(choices: bytes) -> None:
    def asked(received: Received) -> list[Step]:
        ours = "stream_options" in received.json()
        return sse_reply(TOKEN, *([usage(choices)] if ours else []))

    trial = await tried(STREAM, asked, toml=ASKS, times=2)
    assert "stream_options" in trial.asked[0].json()
    assert all(answer.body == b"data: %b\n\ndata: [DONE]\n\n" % TOKEN for answer in trial.answers)


@pytest.mark.parametrize(
    "harm", [[BEGUN, END], json_reply({"error": {"message": "Extra inputs are not permitted"}}, 422), reply(500)]
)
async def test_a_field_of_ours_that_does_harm_is_taken_back(harm: list[Step]) -> None:
    def either(received: Received) -> list[Step]:
        return harm if "stream_options" in received.json() else sse_reply(TOKEN)

    trial = await tried(STREAM, either, toml=ASKS, times=3)
    assert [answer.status for answer in trial.answers] == [200, 200, 200]
    assert all(TOKEN in answer.body for answer in trial.answers)
    assert ["stream_options" in received.json() for received in trial.asked[-2:]] == [False, False]


async def test_blanks_that_keep_an_answer_alive_pass_as_they_come() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    blanks = [step for _ in range(4) for step in (Pause(0.2), chunk(b"\n"))]
    script = [head, *blanks, chunk(msgspec.json.encode(COMPLETION)), END]
    async with (
        ScriptedUpstream(script) as upstream,
        running(upstream.base_url) as proxy,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(sock_read=0.5)) as session,
        session.post(f"{proxy.url}/v1/chat/completions", json=ONE) as answer,
    ):
        assert await answer.json() == COMPLETION


async def test_nothing_of_ours_goes_into_json_that_is_labelled_as_a_stream() -> None:
    raw = msgspec.json.encode(COMPLETION)
    toml = window(8_000, 2_000) + "[limits]\ndiscover = false\n[server]\nkeepalive_s = 0.1\n"
    trial = await tried({"model": "m", "messages": agent_run(30)}, [BEGUN, Pause(0.7), chunk(raw), END], toml=toml)
    assert "cleared=0" not in trial.edits
    assert trial.answer.body == raw


async def test_a_preflight_needs_no_key_and_errors_can_be_read() -> None:
    key = hashlib.sha256(b"k").hexdigest()
    toml = f'[server]\nclient_keys = ["{key}"]\nallowed_origins = ["https://app.example"]\n'
    page = {"origin": "https://app.example", "access-control-request-method": "POST"}
    async with (
        ScriptedUpstream() as upstream,
        running(upstream.base_url, toml) as proxy,
        aiohttp.ClientSession() as web,
        web.options(f"{proxy.base_url}/chat/completions", headers=page) as preflight,
    ):
        refused = await post(proxy.url, ONE, origin="https://app.example")
    assert preflight.status == 204
    assert refused.status == 401
    assert refused.headers["access-control-allow-origin"] == "https://app.example"


async def test_a_summary_call_has_what_the_gateway_wants_of_every_call() -> None:
    summary = {"role": "assistant", "content": OPENING + "it is so."}
    written = {"choices": [{"finish_reason": "stop", "message": summary}]}

    def gateway(received: Received) -> list[Step]:
        if not received.header(b"editor-version") or "?api-version=1" not in received.target:
            return json_reply({"error": {"message": "missing Editor-Version"}}, 400)
        return json_reply(COMPLETION if "user" in received.json() else written)

    toml = window(8_000, 2_000) + '[limits]\ndiscover = false\n[compaction]\nmodel = "same"\nmax_summary_tokens = 300\n'
    body = {"model": "m", "user": "u", "messages": chat(24, 300)}
    path = "/v1/chat/completions?api-version=1"
    trial = await tried(body, gateway, toml=toml, path=path, editor_version="vscode/1.99")
    assert trial.answer.headers["x-trimtab-summary"] == "miss"
    assert "summarized=0" not in trial.edits


def test_idle_connections_outlive_those_of_balancers() -> None:
    settings = parse('[[upstreams]]\nname = "up"\nbase_url = "http://localhost/v1"\n', {})
    assert settings.server.idle_timeout_s > 600


@pytest.mark.parametrize("status", [503, 504])
async def test_the_word_of_a_gateway_about_retries_is_obeyed(status: int) -> None:
    refusal = json_reply({"error": {"message": "busy"}}, status, [(b"x-should-retry", b"false")])
    async with ScriptedUpstream(refusal) as upstream:
        settings = parse(
            f'[[upstreams]]\nname = "up"\nbase_url = "{upstream.base_url}"\n[limits]\ndiscover = false\n', {}
        )
        async with running(settings) as proxy:
            answer = await post(proxy.url, ONE)
        assert (answer.status, len(upstream.requests)) == (status, 1)
    assert answer.json() == {"error": {"message": "busy"}}


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions"])
async def test_an_upgrade_is_refused_at_once(path: str) -> None:
    headers = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
    async with (
        ScriptedUpstream() as upstream,
        running(upstream.base_url) as proxy,
        aiohttp.ClientSession() as web,
        web.get(proxy.url + path, headers=headers) as answer,
    ):
        assert answer.status == 426
    assert upstream.requests == []


async def test_zstd_bodies_are_read_where_they_are_managed() -> None:
    raw = msgspec.json.encode(ONE)
    managed = await tried(zstd.compress(raw), content_encoding="zstd", content_type="application/json")
    assert managed.asked[0].body == raw
    assert managed.asked[0].header(b"content-encoding") is None
    passed = await tried(zstd.compress(raw), path="/v1/files", content_encoding="zstd")
    assert passed.asked[0].body == zstd.compress(raw)
    assert passed.asked[0].header(b"content-encoding") == b"zstd"


@pytest.mark.parametrize(
    "path",
    [
        "/openai/deployments/m/chat/completions",
        "/openai/v1/chat/completions",
        "/v1/v1/chat/completions",
        "/chat/completions",
        "/v1beta/openai/chat/completions",
        "/inference/v1/chat/completions",
    ],
)
async def test_the_base_urls_people_configure_are_managed(path: str) -> None:
    body = {"model": "m", "messages": agent_run(30)}
    trial = await tried(body, toml=window(8_000, 2_000), path=path + "?api-version=1")
    assert trial.answer.status == 200
    assert "cleared=0" not in trial.edits
    assert trial.asked[0].target.endswith("/chat/completions?api-version=1")
    elsewhere = await tried(body, path="/v2/chat/completions")
    assert elsewhere.answer.status == 404
    assert "http://HOST:PORT/v1" in elsewhere.error["message"]


async def test_an_egress_proxy_can_be_named() -> None:
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, ForwardProxy() as egress:
        toml = f'[[upstreams]]\nname = "up"\nbase_url = "{upstream.base_url}"\nproxy = "{egress.url}"\n'
        async with running(parse(toml + "[limits]\ndiscover = false\n", {})) as proxy:
            assert (await post(proxy.url, ONE)).json() == COMPLETION
        assert [line.split()[1] for line in egress.asked] == [f"{upstream.base_url}/chat/completions"]


@pytest.mark.parametrize("path", ["/props", "/model/info", "/api/version"])
async def test_what_clients_read_at_the_root_is_passed_through(path: str) -> None:
    async with (
        ScriptedUpstream(json_reply({"n_ctx": 4_096})) as upstream,
        running(upstream.base_url) as proxy,
        aiohttp.ClientSession() as web,
        web.get(proxy.url + path) as answer,
    ):
        assert await answer.json() == {"n_ctx": 4_096}
    assert upstream.requests[0].target == path
    for other in ("/api/show", "/tokenize"):
        assert (await tried({"model": "m"}, path=other)).asked[0].target == other
