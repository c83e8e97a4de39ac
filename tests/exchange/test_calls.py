"""Every call of an upstream: what goes out in whose name, and what is made of the answer."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.exchange.requests import Given, incoming
from tests.support.scripted import CLOSE, Script, ScriptedUpstream, json_reply, reply, sse_reply
from trimtab.errors import UnknownModel, UpstreamError, UpstreamUnreachable
from trimtab.exchange.access import Access
from trimtab.exchange.calls import Calls
from trimtab.exchange.notes import Notes
from trimtab.summaries.completion import Completion, CompletionRequest
from trimtab.upstream.client import Client
from trimtab.upstream.settings import UpstreamSettings

pytestmark = pytest.mark.anyio

OPEN, GUARDED = Access([]), Access([hashlib.sha256(b"k").hexdigest()])


@contextlib.asynccontextmanager
async def calling(
    *scripts: Script, access: Access = OPEN, **settings: Any
) -> AsyncIterator[tuple[Calls, UpstreamSettings, ScriptedUpstream]]:
    client = Client()
    async with ScriptedUpstream(*scripts) as upstream:
        named = UpstreamSettings(name="up", base_url=upstream.base_url, retries=0, **settings)
        yield Calls([named], client, access), named, upstream
        await client.aclose()


# -- the client's own requests -----------------------------------------------------------------------------------

KEYS: list[tuple[Access, dict[str, Any], bytes | None]] = [
    (OPEN, {}, b"Bearer client"),
    (OPEN, {"api_key": "ours"}, b"Bearer ours"),
    (GUARDED, {"api_key": "ours"}, b"Bearer ours"),
    (GUARDED, {}, None),
    (OPEN, {"headers": {"Authorization": "Token x"}}, b"Token x"),
]


@pytest.mark.parametrize(("access", "settings", "sent"), KEYS)
async def test_a_request_goes_out_in_the_name_that_is_configured(
    access: Access, settings: dict[str, Any], sent: bytes | None
) -> None:
    async with calling(json_reply({}), access=access, **settings) as (calls, upstream, server):
        request = incoming(authorization="Bearer client", accept_encoding="br", x_trimtab_hint="general", x_own="1")
        await calls.chat(upstream, request, b"{}", Notes("r", "chat"))
        await calls.passthrough(incoming("/v1/files", authorization="Bearer client"), Given(b"x"), Notes("r", "chat"))
    chat, other = server.requests
    assert chat.header(b"authorization") == other.header(b"authorization") == sent
    assert (chat.header(b"accept-encoding"), chat.header(b"x-own")) == (b"identity", b"1")
    assert chat.header(b"x-trimtab-hint") is None


async def test_a_chat_is_noted_from_its_call_to_its_first_byte() -> None:
    async with calling(json_reply({"a": 1}, 201)) as (calls, upstream, _):
        notes = Notes("r", "chat")
        verdict = await calls.chat(upstream, incoming(), b'{"x":1}', notes)
    assert verdict.body == b'{"a":1}'
    assert (notes.upstream_status, notes.retries) == (201, 0)
    assert notes.sent_at is not None
    assert notes.first_byte_at is not None
    assert notes.first_byte_at >= notes.sent_at


@pytest.mark.parametrize(
    ("method", "chunks", "length", "body"),
    [
        ("GET", (), b"0", b""),
        ("DELETE", (), b"0", b""),
        ("POST", (b"ab", b"c"), None, b"abc"),
        ("PUT", (b"x" * 100_000,), None, b"x" * 100_000),
    ],
)
async def test_other_requests_go_on_as_they_come(
    method: str, chunks: tuple[bytes, ...], length: bytes | None, body: bytes
) -> None:
    async with calling(json_reply({})) as (calls, _, server):
        notes = Notes("r", "passthrough")
        await calls.passthrough(incoming("/v1/files", method), Given(*chunks), notes)
    assert server.requests[0].method == method
    assert server.requests[0].body == body
    assert server.requests[0].header(b"content-length") == length
    assert (notes.upstream, notes.upstream_status) == ("up", 200)


async def test_with_one_upstream_no_body_is_held_and_every_model_is_its_own() -> None:
    async with calling(json_reply({}), models=("gpt-*",)) as (calls, _, server):
        request = incoming("/v1/embeddings", content_type="application/json")
        await calls.passthrough(request, Given(b'{"model":', b'"e5"}'), Notes("r", "passthrough"))
        assert await calls.listing(incoming("/v1/models", "GET")) is None
    assert server.requests[0].header(b"transfer-encoding") == b"chunked"
    assert server.requests[0].body == b'{"model":"e5"}'


def test_a_model_no_upstream_takes_is_an_error_of_the_clients() -> None:
    with pytest.raises(UnknownModel):
        Calls([], Client(), OPEN).route("m")
    with pytest.raises(UnknownModel):
        Calls([], Client(), OPEN).route(None)


# -- what discovery asks -----------------------------------------------------------------------------------------


async def test_discovery_asks_below_the_base_and_at_the_root_in_the_clients_name() -> None:
    async with calling(json_reply({"data": []})) as (calls, _, server):
        fetch = calls.fetching(b"Bearer client")
        assert await fetch("up", "models") == b'{"data":[]}'
        await fetch("up", "/api/show", b'{"model":"m"}')
    listed, shown = server.requests
    assert (listed.method, listed.target, shown.method, shown.target) == ("GET", "/v1/models", "POST", "/api/show")
    assert listed.header(b"authorization") == shown.header(b"authorization") == b"Bearer client"
    assert (shown.body, shown.header(b"content-type")) == (b'{"model":"m"}', b"application/json")
    assert listed.header(b"content-type") is None


async def test_a_key_that_came_in_another_header_goes_out_in_it() -> None:
    async with calling(json_reply({"data": []})) as (calls, _, server):
        await calls.fetching(b"key-without-a-scheme")("up", "models")
    assert server.requests[0].header(b"api-key") == server.requests[0].header(b"x-api-key") == b"key-without-a-scheme"
    assert server.requests[0].header(b"authorization") is None


def test_two_models_are_of_one_server_where_scheme_host_and_port_are_the_same() -> None:
    urls = {"a": "https://one.example/v1", "b": "https://ONE.example:443/other", "c": "http://one.example/v1"}
    upstreams = [UpstreamSettings(name=name, base_url=url, models=(name,)) for name, url in urls.items()]
    calls = Calls(upstreams, Client(), OPEN)
    assert calls.same_server("a", "b")
    assert not calls.same_server("a", "c")
    assert not calls.same_server("a", "unknown")


@pytest.mark.parametrize("script", [reply(404, b"{}"), json_reply({}, 401), [CLOSE]], ids=["404", "401", "hangs up"])
async def test_discovery_hears_nothing_of_what_is_no_answer(script: Script) -> None:
    async with calling(script) as (calls, _, _server):
        assert await calls.fetching(b"")("up", "models") is None


async def test_a_key_meant_for_this_proxy_asks_nothing_upstream() -> None:
    async with calling(json_reply({}), access=GUARDED) as (calls, _, server):
        await calls.fetching(b"Bearer k")("up", "models")
    assert server.requests[0].header(b"authorization") is None


async def test_a_compressed_answer_is_read() -> None:
    async with calling(json_reply({"data": []}, gzip=True)) as (calls, _, _server):
        assert await calls.fetching(b"")("up", "models") == b'{"data":[]}'


# -- the summary model -------------------------------------------------------------------------------------------


def completion(**message: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": "stop"}]}


ASKED = CompletionRequest("m", (b'{"role":"system","content":"s"}', b'{"role":"user","content":"u"}'), 200, b"Bearer c")


async def test_a_summary_is_asked_for_like_any_completion() -> None:
    usage = {"prompt_tokens": 50, "completion_tokens": 9}
    async with calling(json_reply({**completion(content="short"), "usage": usage})) as (calls, _, server):
        answer = await calls.complete(ASKED)
    sent = server.requests[0]
    assert sent.target == "/v1/chat/completions"
    assert sent.json() == {
        "model": "m",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        "max_tokens": 200,
        "stream": False,
    }
    assert sent.header(b"authorization") == b"Bearer c"
    assert answer == Completion("short", "stop", False, 50, 9)


async def test_a_model_that_refuses_max_tokens_gets_the_newer_field() -> None:
    async with calling(json_reply(completion(content="s"))) as (calls, _, server):
        await calls.complete(msgspec.structs.replace(ASKED, model="gpt-5-mini"))
    assert (server.requests[0].json()["max_completion_tokens"], "max_tokens" in server.requests[0].json()) == (
        200,
        False,
    )


@pytest.mark.parametrize(("tools", "choice"), [(True, "none"), (False, None)])
async def test_an_appended_call_keeps_the_fields_and_may_call_no_tool(tools: bool, choice: str | None) -> None:
    fields = {"temperature": msgspec.Raw(b"0.70"), **({"tools": msgspec.Raw(b"[{}]")} if tools else {})}
    async with calling(json_reply(completion(content="s"))) as (calls, _, server):
        await calls.complete(msgspec.structs.replace(ASKED, fields=fields))
    assert server.requests[0].json().get("tool_choice") == choice
    assert b'"temperature":0.70' in server.requests[0].body


ANSWERS: list[tuple[dict[str, Any], Completion]] = [
    (completion(content="s"), Completion("s")),
    (completion(content=None), Completion("")),
    (completion(), Completion("")),
    (completion(content="s", tool_calls=[]), Completion("s")),
    (completion(content=[{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "s"}]), Completion("s")),
    (completion(content="<think>\nI see.\n</think>s"), Completion("s")),
    (completion(content="I see.\n</think>s"), Completion("s")),
    (completion(content=" <think>I see, and see, and"), Completion("")),
    (completion(content="s, and `<think>x</think>` in a text"), Completion("s, and `<think>x</think>` in a text")),
    (completion(content=None, tool_calls=[{"id": "x"}]), Completion("", has_tool_call=True)),
    ({"choices": [{"message": {"content": "s"}, "finish_reason": "length"}]}, Completion("s", "length")),
    ({"choices": [{"message": {"content": "s"}}]}, Completion("s", None)),
    ({"usage": {"total_tokens": 9}, **completion(content="s")}, Completion("s")),
    ({"error": None, **completion(content="s")}, Completion("s")),
]


@pytest.mark.parametrize(("answer", "read"), ANSWERS)
async def test_whatever_a_completion_says_is_read(answer: dict[str, Any], read: Completion) -> None:
    async with calling(json_reply(answer)) as (calls, _, _server):
        assert await calls.complete(ASKED) == read


NONE: list[tuple[str, Script, type[UpstreamError]]] = [
    ("an error", json_reply({"error": {}}, 500), UpstreamError),
    ("a rate limit", json_reply({"error": {}}, 429), UpstreamError),
    ("no choice", json_reply({"choices": []}), UpstreamError),
    ("no JSON", reply(200, b"<html>"), UpstreamError),
    ("another shape", json_reply({"choices": [{"message": {"content": 7}}]}), UpstreamError),
    ("an error beside a text", json_reply({"error": {"message": "no"}, **completion(content="s")}), UpstreamError),
    (
        "an error in its choice",
        json_reply({"choices": [{"message": {"content": "s"}, "error": {"code": 502}}]}),
        UpstreamError,
    ),
    ("a stream", sse_reply(b"{}"), UpstreamError),
    ("nobody there", [CLOSE], UpstreamUnreachable),
]


@pytest.mark.parametrize(("_", "script", "error"), NONE, ids=[row[0] for row in NONE])
async def test_what_is_no_completion_is_an_error_of_the_upstreams(
    _: str, script: Script, error: type[UpstreamError]
) -> None:
    async with calling(script) as (calls, _upstream, _server):
        with pytest.raises(error):
            await calls.complete(ASKED)
