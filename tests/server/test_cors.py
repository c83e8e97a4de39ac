"""Browsers: a preflight without a key, answers and errors a page can read, and nothing of it unless configured."""

from __future__ import annotations

import hashlib

import aiohttp
import pytest

from tests.support.chat import COMPLETION
from tests.support.conversations import chat
from tests.support.running import running
from tests.support.scripted import ScriptedUpstream, json_reply

pytestmark = pytest.mark.anyio

PAGE = "https://app.example"
KEY = hashlib.sha256(b"k").hexdigest()
TOML = f'[server]\nclient_keys = ["{KEY}"]\nallowed_origins = ["{PAGE}"]\n'
BODY = {"model": "m", "messages": chat(0)}
ASKS = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,x-trimtab-profile",
    "access-control-request-private-network": "true",
}


async def test_a_preflight_is_answered_without_a_key() -> None:
    async with (
        ScriptedUpstream() as upstream,
        running(upstream.base_url, TOML) as proxy,
        aiohttp.ClientSession() as web,
    ):
        asked = await web.options(proxy.base_url + "/chat/completions", headers={"origin": PAGE, **ASKS})
        assert asked.status == 204
        assert asked.headers["access-control-allow-origin"] == PAGE
        assert "POST" in asked.headers["access-control-allow-methods"]
        assert asked.headers["access-control-allow-headers"] == ASKS["access-control-request-headers"]
        assert asked.headers["access-control-allow-private-network"] == "true"
        assert asked.headers["vary"] == "Origin"
        stranger = await web.options(proxy.base_url + "/chat/completions", headers={"origin": "https://x", **ASKS})
        assert (stranger.status, stranger.headers.get("access-control-allow-origin")) == (401, None)
    assert upstream.requests == []


@pytest.mark.parametrize(("key", "status"), [("k", 200), ("wrong", 401)])
async def test_a_page_can_read_answers_and_errors(key: str, status: int) -> None:
    own = [(b"Access-Control-Allow-Origin", b"https://provider.example")]
    async with (
        ScriptedUpstream(json_reply(COMPLETION, 200, own)) as upstream,
        running(upstream.base_url, TOML) as proxy,
        aiohttp.ClientSession(headers={"authorization": f"Bearer {key}"}) as web,
    ):
        answer = await web.post(proxy.base_url + "/chat/completions", json=BODY, headers={"origin": PAGE})
        nowhere = await web.get(proxy.url + "/nowhere", headers={"origin": PAGE})
    assert answer.status == status
    for each in (answer, nowhere):
        assert each.headers.getall("access-control-allow-origin") == [PAGE]
        assert each.headers["access-control-expose-headers"] == "*"


@pytest.mark.parametrize(("toml", "header"), [("", None), ('[server]\nallowed_origins = ["*"]\n', PAGE)])
async def test_it_is_off_unless_configured_and_may_be_open_to_all(toml: str, header: str | None) -> None:
    async with (
        ScriptedUpstream(json_reply(COMPLETION)) as upstream,
        running(upstream.base_url, toml) as proxy,
        aiohttp.ClientSession() as web,
    ):
        answer = await web.post(proxy.base_url + "/chat/completions", json=BODY, headers={"origin": PAGE})
        plain = await web.post(proxy.base_url + "/chat/completions", json=BODY)
    assert answer.headers.get("access-control-allow-origin") == header
    assert "access-control-allow-origin" not in plain.headers
