"""Every call of an upstream: what goes out in whose name, and what is made of the answer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.exchange.requests import calling, incoming
from tests.support.scripted import CLOSE, Script, json_reply, reply
from trimtab.errors import UnknownModel
from trimtab.exchange.calls import Calls
from trimtab.exchange.notes import Notes
from trimtab.telemetry import UpstreamCall
from trimtab.upstream.client import Client
from trimtab.upstream.settings import UpstreamSettings

pytestmark = pytest.mark.anyio


# -- the client's own requests -----------------------------------------------------------------------------------

KEYS: list[tuple[bool, dict[str, Any], bytes | None]] = [
    (True, {}, b"Bearer client"),
    (True, {"api_key": "ours"}, b"Bearer ours"),
    (False, {"api_key": "ours"}, b"Bearer ours"),
    (False, {}, None),
    (True, {"headers": {"Authorization": "Token x"}}, b"Token x"),
]


@pytest.mark.parametrize(("keep", "settings", "sent"), KEYS)
async def test_a_request_goes_out_in_the_name_that_is_configured(
    keep: bool, settings: dict[str, Any], sent: bytes | None
) -> None:
    async with calling(json_reply({}), keep_credentials=keep, **settings) as (calls, upstream, server):
        request = incoming(authorization="Bearer client", accept_encoding="br", x_trimtab_hint="general", x_own="1")
        await calls.chat(upstream, request, b"{}", Notes("r", "chat"))
        other = incoming("/v1/files", authorization="Bearer client")
        await calls.send(upstream, other, b"x", Notes("r", "passthrough"), body_changed=False)
    chat, other = server.requests
    assert chat.header(b"authorization") == other.header(b"authorization") == sent
    assert (chat.header(b"accept-encoding"), chat.header(b"x-own")) == (b"identity", b"1")
    assert chat.header(b"x-trimtab-hint") is None


async def test_a_chat_is_noted_from_its_call_to_its_first_byte() -> None:
    async with calling(json_reply({"a": 1}, 201)) as (calls, upstream, _):
        notes = Notes("r", "chat")
        verdict = await calls.chat(upstream, incoming(), b'{"x":1}', notes)
    assert verdict.body == b'{"a":1}'
    assert notes.calls == [UpstreamCall("up", 201)]
    assert notes.sent_at is not None
    assert notes.first_byte_at is not None
    assert notes.first_byte_at >= notes.sent_at


def test_a_model_no_upstream_takes_is_an_error_of_the_clients() -> None:
    with pytest.raises(UnknownModel):
        Calls([], Client()).route("m")
    with pytest.raises(UnknownModel):
        Calls([], Client()).route(None)


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
    calls = Calls(upstreams, Client())
    assert calls.same_server("a", "b")
    assert not calls.same_server("a", "c")
    assert not calls.same_server("a", "unknown")


@pytest.mark.parametrize("script", [reply(404, b"{}"), json_reply({}, 401), [CLOSE]], ids=["404", "401", "hangs up"])
async def test_discovery_hears_nothing_of_what_is_no_answer(script: Script) -> None:
    async with calling(script) as (calls, _, _server):
        assert await calls.fetching(b"")("up", "models") is None


async def test_a_key_meant_for_this_proxy_asks_nothing_upstream() -> None:
    async with calling(json_reply({}), keep_credentials=False) as (calls, _, server):
        await calls.fetching(b"Bearer k")("up", "models")
    assert server.requests[0].header(b"authorization") is None


async def test_a_compressed_answer_is_read() -> None:
    async with calling(json_reply({"data": []}, gzip=True)) as (calls, _, _server):
        assert await calls.fetching(b"")("up", "models") == b'{"data":[]}'
