"""What litestar serves: health, metrics, the plan endpoint, the OpenAPI document, and wrong turns."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import msgspec
import pytest
from yarl import URL

from tests.support.chat import COMPLETION, WINDOW, Call, post
from tests.support.conversations import agent_run, chat
from tests.support.running import running
from tests.support.scripted import ScriptedUpstream, json_reply

pytestmark = pytest.mark.anyio

PLAN = "/v1/context/plan"
BODY = {"model": "m", "messages": chat(1)}


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
        ("POST", "/chat", 404),
        ("POST", "/props", 404),
        ("POST", "/api/delete", 404),
        ("GET", "/v1", 404),
        ("GET", "/modelss", 404),
        ("GET", "/healthz", 404),
        ("GET", "/%761/models", 404),
        ("GET", "/schema", 404),
        ("GET", "/schema/swagger", 404),
    ],
)
async def test_a_wrong_turn_is_answered_with_where_the_api_is(method: str, path: str, status: int) -> None:
    async with ScriptedUpstream() as upstream, running(upstream.base_url) as proxy:
        url = URL(proxy.url + path, encoded=True)
        named = {"x-request-id": "mine"}
        async with aiohttp.ClientSession() as session, session.request(method, url, headers=named) as answer:
            error = msgspec.json.decode(await answer.read())
            assert answer.status == status
            assert answer.headers.getall("content-type") == ["application/json"]
            assert answer.headers["x-trimtab-request-id"] == error["error"]["request_id"] == "mine"
            assert answer.headers["x-should-retry"] == "false"
    assert "http://HOST:PORT/v1" in error["error"]["message"]
    assert set(error["error"]) >= {"message", "type", "param", "code"}
    assert upstream.requests == []


async def test_pages_need_no_client_key_and_the_api_does() -> None:
    toml = f'[server]\nclient_keys = ["{"ab" * 32}"]\n'
    async with ScriptedUpstream() as upstream, running(upstream.base_url, toml) as proxy:
        pages = [(await get(proxy.url + path)).status for path in ("/healthz/live", "/healthz/ready", "/metrics")]
        api = await get(proxy.url + "/v1/models")
    assert pages == [200, 200, 200]
    assert (api.status, api.json()["error"]["code"]) == (401, "invalid_api_key")
    assert upstream.requests == []


METHODS = [
    ("POST", "/metrics", "GET, OPTIONS"),
    ("POST", "/healthz/ready", "GET, HEAD, OPTIONS"),
    ("DELETE", "/healthz/live/", "GET, HEAD, OPTIONS"),
    ("GET", "/v1/context/plan", "OPTIONS, POST"),
    ("PUT", "/v1//context/plan/", "OPTIONS, POST"),
]


@pytest.mark.parametrize(("method", "path", "allowed"), METHODS)
async def test_a_wrong_method_is_answered_with_the_right_ones(method: str, path: str, allowed: str) -> None:
    async with ScriptedUpstream() as upstream, running(upstream.base_url) as proxy:
        answer = await get(proxy.url + path, method)
        options = await get(proxy.url + path, "OPTIONS")
    assert (answer.status, answer.headers["allow"]) == (405, allowed)
    assert answer.headers["x-trimtab-request-id"] == answer.json()["error"]["request_id"]
    assert answer.headers["x-should-retry"] == "false"
    assert allowed in answer.json()["error"]["message"]
    assert sorted(options.headers["allow"].split(", ")) == allowed.split(", ")
    assert upstream.requests == []


async def test_health_answers_a_head_with_the_head_alone() -> None:
    async with ScriptedUpstream() as upstream, running(upstream.base_url) as proxy:
        for path in ("/healthz/live", "/healthz/ready"):
            head, whole = await get(proxy.url + path, "HEAD"), await get(proxy.url + path)
            assert (head.status, head.body) == (200, b"")
            assert head.headers["content-length"] == str(len(whole.body))
            assert head.headers["content-type"] == whole.headers["content-type"] == "application/json"


# -- the plan endpoint -------------------------------------------------------------------------------------------


async def test_a_plan_is_answered_in_json_with_the_requests_id_and_leaves_a_record() -> None:
    async with ScriptedUpstream() as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, BODY, PLAN, x_request_id="r-1")
        spelled = await post(proxy.url, BODY, "/v1/context%2Fplan/")
        metrics = await proxy.metrics()
        line, _ = [msgspec.json.decode(line) for line in proxy.log.getvalue().splitlines()]
    assert (answer.status, spelled.status) == (200, 200)
    assert (answer.headers["content-type"], answer.headers["x-request-id"]) == ("application/json", "r-1")
    assert answer.json() == spelled.json()
    assert answer.json()["fits"]
    assert (line["path"], line["outcome"], line["status"], line["request_id"]) == ("plan", "planned", 200, "r-1")
    assert 'outcome="planned"} 2.0' in metrics
    assert upstream.requests == []


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (b"{", {}, 400, "invalid_request"),
        (b'{"messages":5}', {}, 400, "invalid_request"),
        (b"x", {"content_encoding": "compress"}, 415, "unsupported_content_encoding"),
        (b'{"messages":[]}', {"x_trimtab_profile": "absent"}, 400, "invalid_request"),
        (b'"' + b"x" * (1 << 20) + b'"', {}, 413, "request_too_large"),
    ],
)
async def test_a_plan_that_is_refused_has_the_envelope_and_a_record(
    body: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    async with ScriptedUpstream() as upstream, running(upstream.base_url, "[server]\nmax_body_mb = 1\n") as proxy:
        answer = await post(proxy.url, body, PLAN, x_request_id="r-2", **headers)
        line = msgspec.json.decode(proxy.log.getvalue())
        assert (proxy.parts.load.requests, proxy.parts.load.bytes) == (0, 0)
    error = answer.json()["error"]
    assert (answer.status, error["code"], error["request_id"]) == (status, code, "r-2")
    assert answer.headers["x-should-retry"] == "false"
    assert answer.headers["x-request-id"] == "r-2"
    assert (line["path"], line["outcome"], line["status"]) == ("plan", "client_error", status)


async def test_a_plan_needs_a_client_key_where_keys_are_configured() -> None:
    toml = f'[server]\nclient_keys = ["{"ab" * 32}"]\n'
    async with ScriptedUpstream() as upstream, running(upstream.base_url, toml) as proxy:
        answer = await post(proxy.url, BODY, PLAN)
    assert (answer.status, answer.json()["error"]["code"]) == (401, "invalid_api_key")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_with_conversations_the_document_describes_their_endpoints_too(tmp_path: Path) -> None:
    toml = f'[conversations]\nstore = "sqlite:///{tmp_path}/c.db"\n'
    async with ScriptedUpstream() as upstream, running(upstream.base_url, toml) as proxy:
        answer = await get(proxy.url + "/schema/openapi.json")
    paths = answer.json()["paths"]
    assert answer.status == 200
    assert {method for path in paths if path.startswith("/v1/conversations") for method in paths[path]} == {
        *("get", "post", "delete"),
    }
    assert {"/v1/responses/{name}", "/v1/responses/{name}/cancel", "/v1/files", "/v1/files/{name}/content"} <= {*paths}


async def test_a_plan_as_a_body_is_the_body_or_the_reason_why_there_is_none() -> None:
    async with ScriptedUpstream() as upstream, running(upstream.base_url, WINDOW) as proxy:
        whole = await post(proxy.url, b'{ "model": "m", "messages": []}', PLAN + "?body=true")
        plan = await post(proxy.url, BODY, PLAN + "?body=false")
        odd = await post(proxy.url, BODY, PLAN + "?body=perhaps")
        long = {"model": "m", "messages": [{"role": "user", "content": "word " * 50_000}]}
        refused = await post(proxy.url, long, PLAN + "?body=1")
        lines = proxy.log.getvalue().splitlines()
    assert (whole.status, whole.body) == (200, b'{ "model": "m", "messages": []}')
    assert whole.headers["content-type"] == "application/json"
    assert plan.json()["fits"]
    assert odd.status == 400
    assert (refused.status, refused.json()["error"]["code"]) == (400, "context_length_exceeded")
    outcomes = [line["outcome"] for line in map(msgspec.json.decode, lines) if line["event"] == "exchange"]
    assert outcomes == ["planned", "planned", "refused"]
    assert upstream.requests == []


async def test_the_openapi_document_describes_what_is_ours_and_what_the_plan_answers() -> None:
    async with ScriptedUpstream() as upstream, running(upstream.base_url, WINDOW) as proxy:
        document = (await get(proxy.url + "/schema/openapi.json")).json()
        answer = (await post(proxy.url, {"model": "m", "messages": agent_run(30)}, PLAN)).json()
    assert document["openapi"].startswith("3.")
    pages = {path for path in document["paths"] if path.startswith("/ui/api/")}  # see test_ui
    assert set(document["paths"]) - pages == {"/healthz/live", "/healthz/ready", "/metrics", PLAN}
    operation = document["paths"][PLAN]["post"]
    [asked] = operation["parameters"]
    assert (asked["name"], asked["in"], asked["required"]) == ("body", "query", False)
    assert operation["requestBody"]["required"]
    assert set(operation["responses"]) == {"200", "400", "401", "413", "503"}
    schemas = document["components"]["schemas"]
    name = operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    assert set(schemas[name]["properties"]) == set(schemas[name]["required"]) == set(answer)
    assert set(schemas["PlannedEdit"]["properties"]) == set(answer["edits"][0])
    assert set(schemas["Irreducible"]["properties"]) == set(answer["irreducible"])
    assert "examples" not in str(document)  # they are random, and need a package that the image does not have
