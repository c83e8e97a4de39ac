"""The pages and their API on a running proxy: what is served, to whom, and what the answers carry."""

from __future__ import annotations

import asyncio
import hashlib

import aiohttp
import msgspec
import pytest

from tests.support.chat import COMPLETION, WINDOW, post
from tests.support.conversations import agent_run, chat
from tests.support.pages import ask, read
from tests.support.running import running, sample
from tests.support.scripted import ScriptedUpstream, json_reply, sse_reply
from trimtab.resources import page_files

pytestmark = pytest.mark.anyio

SECRET = "the-phrase-that-must-not-show"


async def get(url: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status, {k.lower(): v for k, v in answer.headers.items()}, await answer.read()


async def test_the_page_is_served_with_headers_that_allow_nothing_from_elsewhere() -> None:
    async with ScriptedUpstream() as upstream, running(upstream.base_url) as proxy:
        for path in ("/ui", "/ui/", *(f"/ui/{name}" for name in page_files())):
            status, headers, body = await get(proxy.url + path)
            assert (status, body != b"") == (200, True), path
            assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; ")
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert "set-cookie" not in headers
            again = await get(proxy.url + path, **{"if-none-match": headers["etag"]})
            assert (again[0], again[2]) == (304, b"")


async def test_no_answer_of_the_api_is_stored_also_no_error() -> None:
    digest = hashlib.sha256(b"secret").hexdigest()
    async with ScriptedUpstream() as upstream, running(upstream.base_url, f'[ui]\nkeys = ["{digest}"]\n') as proxy:
        key = {"authorization": "Bearer secret"}
        proxy.parts.load.leaving = True  # the stream of events ends
        answers = {
            200: await ask(proxy.url, "/status", **key),
            "events": await ask(proxy.url, "/events", **key),
            401: await ask(proxy.url, "/status"),
            403: await ask(proxy.url, "/status", sec_fetch_site="cross-site", **key),
            404: await ask(proxy.url, "/exchanges/7", **key),
            "no such path": await ask(proxy.url, "/nowhere", **key),
            400: await ask(proxy.url, "/exchanges?after=x", **key),
            "no plan": await ask(proxy.url, "/plan", b"{", **key),
            405: await ask(proxy.url, "/status", {}, **key),
        }
    for status, answer in answers.items():
        assert answer.status == status or isinstance(status, str), (status, answer.body)
        assert answer.headers.getall("cache-control") == ["no-store"], status
        assert answer.headers["content-security-policy"].startswith("default-src 'none'"), status
        assert (answer.headers["x-content-type-options"], answer.headers["x-frame-options"]) == ("nosniff", "DENY")


async def test_the_whole_page_is_under_200_kb() -> None:
    assert sum(map(len, page_files().values())) < 200_000


async def test_exchanges_are_listed_and_those_after_a_number() -> None:
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        for cycles in (2, 30):
            await post(proxy.url, {"model": "m", "messages": agent_run(cycles)})
        listed, later = await read(proxy.url, "/exchanges"), await read(proxy.url, "/exchanges?after=1")
        metrics = await proxy.metrics()
    assert [each["outcome"] for each in listed["exchanges"]] == ["passed", "shaped"]
    assert later == {"exchanges": listed["exchanges"][1:], "newest": 2}
    for kind in ("original", "sent"):
        total = sum(each[kind] for each in listed["exchanges"])
        assert total == sample(metrics, f'trimtab_tokens_total{{kind="{kind}",model="m"}}')


async def test_exchanges_come_as_events_while_they_end() -> None:
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        await post(proxy.url, {"model": "m", "messages": chat(1)})
        async with aiohttp.ClientSession() as session, session.get(proxy.url + "/ui/api/events") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            await post(proxy.url, {"model": "m", "messages": chat(2)})
            read_so_far = b""
            async with asyncio.timeout(10):
                while read_so_far.count(b"\n\n") < 3:
                    read_so_far += await stream.content.readany()
        proxy.parts.load.leaving = True
        async with asyncio.timeout(10):  # a server that stops does not wait for who is watching
            await get(proxy.url + "/ui/api/events")
    events = read_so_far.decode().split("\n\n")
    assert events[0] == ": open"
    assert [event.split("\n")[:2] for event in events[1:3]] == [
        ["event: exchange", "id: 1"],
        ["event: exchange", "id: 2"],
    ]
    assert msgspec.json.decode(events[2].split("data: ")[1])["messages"] == 6


async def test_a_conversation_is_a_column_for_each_request_with_the_figures_of_the_headers() -> None:
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        answers = [await post(proxy.url, {"model": "m", "messages": agent_run(n)}) for n in (2, 20, 40)]
        await post(proxy.url, {"model": "m", "messages": chat(3)})
        listed = (await read(proxy.url, "/conversations"))["conversations"]
        found = await read(proxy.url, f"/conversations/{listed[1]['name']}")
        gone = await ask(proxy.url, "/conversations/nope")
    assert [each["requests"] for each in listed] == [1, 3]
    for column, answer in zip(found["columns"], answers, strict=True):
        sizes = f"original={column['exchange']['original']}, sent={sum(column['kinds'].values())}, budget=7168"
        assert answer.headers["x-trimtab-tokens"] == sizes
    assert (gone.status, gone.json()["error"]["code"]) == (404, "not_kept")


async def test_no_text_is_shown_unless_it_is_asked_for() -> None:
    messages = [*agent_run(30), {"role": "user", "content": SECRET}]
    paths = (
        "/exchanges",
        "/exchanges/1",
        "/conversations",
        "/status",
        "/models",
        "/events?after=0",
        "/exchanges/1/text",
    )
    async with (
        ScriptedUpstream(sse_reply(msgspec.json.encode({"choices": []}))) as upstream,
        running(upstream.base_url, WINDOW) as proxy,
    ):
        await post(proxy.url, {"model": "m", "messages": messages, "stream": True})
        proxy.parts.load.leaving = True  # the stream of events ends
        answers = {path: await ask(proxy.url, path) for path in paths}
        listed = (await read(proxy.url, "/conversations"))["conversations"]
        answers["one"] = await ask(proxy.url, f"/conversations/{listed[0]['name']}")
        plan = await ask(proxy.url, "/plan", {"number": 1})
    assert not [path for path, answer in answers.items() if SECRET.encode() in answer.body or b"page 1" in answer.body]
    assert (answers["/exchanges/1/text"].status, plan.status) == (404, 404)
    assert "text = true" in plan.json()["error"]["message"]


async def test_where_it_is_off_there_is_no_page_and_nothing_is_kept() -> None:
    async with (
        ScriptedUpstream(json_reply(COMPLETION)) as upstream,
        running(upstream.base_url, "[ui]\nenabled = false\n") as proxy,
    ):
        await post(proxy.url, {"model": "m", "messages": chat(1)})
        assert (await get(proxy.url + "/ui"))[0] == 404
        assert (await ask(proxy.url, "/exchanges")).status == 404
        assert proxy.parts.ring is None


async def test_with_a_key_the_data_needs_it_and_the_page_does_not() -> None:
    digest = hashlib.sha256(b"secret").hexdigest()
    async with ScriptedUpstream() as upstream, running(upstream.base_url, f'[ui]\nkeys = ["{digest}"]\n') as proxy:
        page = await get(proxy.url + "/ui")
        without = await ask(proxy.url, "/status")
        with_key = await ask(proxy.url, "/status", authorization="Bearer secret")
    assert (page[0], without.status, with_key.status) == (200, 401, 200)
    assert without.json()["error"]["code"] == "invalid_api_key"


async def test_origins_that_may_call_the_api_may_not_read_the_pages() -> None:
    toml = '[server]\nallowed_origins = ["*"]\n'
    async with ScriptedUpstream() as upstream, running(upstream.base_url, toml) as proxy:
        status, headers, _ = await get(proxy.url + "/ui/api/status", origin="https://other.example")
        refused = await ask(proxy.url, "/status", sec_fetch_site="cross-site")
    assert (status, "access-control-allow-origin" in headers) == (200, False)
    assert refused.status == 403


async def test_the_api_is_in_the_openapi_document() -> None:
    async with ScriptedUpstream() as upstream, running(upstream.base_url) as proxy:
        document = msgspec.json.decode((await get(proxy.url + "/schema/openapi.json"))[2])
    paths = {path: [*methods] for path, methods in document["paths"].items() if path.startswith("/ui")}
    assert paths == {
        "/ui/api/exchanges": ["get"],
        "/ui/api/exchanges/{number}": ["get"],
        "/ui/api/exchanges/{number}/text": ["get"],
        "/ui/api/events": ["get"],
        "/ui/api/conversations": ["get"],
        "/ui/api/conversations/{name}": ["get"],
        "/ui/api/status": ["get"],
        "/ui/api/models": ["get"],
        "/ui/api/plan": ["post"],
    }
    column = document["components"]["schemas"]["Column"]["properties"]
    assert set(column) == {"exchange", "kinds", "removed"}
