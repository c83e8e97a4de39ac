"""What is no call of the API: health, metrics, and those who took a wrong turn."""

from __future__ import annotations

import aiohttp
import msgspec
import pytest
from yarl import URL

from tests.support.chat import COMPLETION, Call, post
from tests.support.conversations import chat
from tests.support.running import running
from tests.support.scripted import ScriptedUpstream, json_reply

pytestmark = pytest.mark.anyio


async def get(url: str, method: str = "GET", **headers: str) -> Call:
    async with aiohttp.ClientSession() as session, session.request(method, url, headers=headers) as answer:
        return Call(answer.status, answer.headers, await answer.read())


async def test_a_running_proxy_is_live_and_ready() -> None:
    async with ScriptedUpstream() as upstream, running(upstream.base_url) as proxy:
        live, ready = await get(proxy.url + "/healthz/live"), await get(proxy.url + "/healthz/ready")
    assert (live.status, live.json()) == (200, {"status": "live"})
    assert (ready.status, ready.json()) == (200, {"status": "ready", "in_flight": 0})
    assert upstream.requests == []


async def test_one_that_stops_is_live_and_no_longer_ready_and_still_serves() -> None:
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url) as proxy:
        proxy.parts.load.leaving = True
        live, ready = await get(proxy.url + "/healthz/live"), await get(proxy.url + "/healthz/ready")
        served = await post(proxy.url, {"model": "m", "messages": chat(0)})
        proxy.parts.load.draining = True
        turned_away = await post(proxy.url, {"model": "m", "messages": chat(0)})
    assert (live.status, ready.status, ready.json()["status"]) == (200, 503, "draining")
    assert served.status == 200
    assert (turned_away.status, turned_away.json()["error"]["code"]) == (503, "overloaded")
    assert "shutting down" in turned_away.json()["error"]["message"]


async def test_metrics_are_in_the_format_the_scraper_asks_for() -> None:
    async with ScriptedUpstream() as upstream, running(upstream.base_url) as proxy:
        plain = await get(proxy.url + "/metrics")
        open_metrics = await get(proxy.url + "/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert plain.headers["content-type"].startswith("text/plain; version=")
    assert b"trimtab_inflight_requests 0.0" in plain.body
    assert open_metrics.headers["content-type"].startswith("application/openmetrics-text")
    assert open_metrics.body.endswith(b"# EOF\n")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("POST", "/chat/completions", 404),
        ("GET", "/v1", 404),
        ("GET", "/models", 404),
        ("GET", "/healthz", 404),
        ("POST", "/metrics", 405),
        ("GET", "/%761/models", 404),
    ],
)
async def test_a_wrong_turn_is_told_where_the_api_is(method: str, path: str, status: int) -> None:
    async with ScriptedUpstream() as upstream, running(upstream.base_url) as proxy:
        url = URL(proxy.url + path, encoded=True)
        async with aiohttp.ClientSession() as session, session.request(method, url) as answer:
            told = msgspec.json.decode(await answer.read())
            assert answer.status == status
            assert answer.headers["content-type"].startswith("application/json")
    assert "http://HOST:PORT/v1" in told["error"]["message"]
    assert set(told["error"]) >= {"message", "type", "param", "code"}
    assert upstream.requests == []


async def test_pages_need_no_client_key_and_the_api_does() -> None:
    toml = f'[server]\nclient_keys = ["{"ab" * 32}"]\n'
    async with ScriptedUpstream() as upstream, running(upstream.base_url, toml) as proxy:
        pages = [(await get(proxy.url + path)).status for path in ("/healthz/live", "/healthz/ready", "/metrics")]
        api = await get(proxy.url + "/v1/models")
    assert pages == [200, 200, 200]
    assert (api.status, api.json()["error"]["code"]) == (401, "invalid_api_key")
    assert upstream.requests == []
