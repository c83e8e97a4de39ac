"""Several upstreams: where a request outside chat goes, and the one list of their models."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiohttp
import msgspec
import pytest

from tests.exchange.requests import Given, Kept, calling
from tests.exchange.requests import incoming as request
from tests.support.chat import COMPLETION, Call, post
from tests.support.conversations import chat
from tests.support.running import Running, running
from tests.support.scripted import (
    CLOSE,
    STALL,
    Received,
    Script,
    ScriptedUpstream,
    Step,
    closed_port,
    json_reply,
    reply,
)
from trimtab.exchange.incoming import Incoming, asks_of, first_values
from trimtab.exchange.notes import Notes
from trimtab.exchange.passthrough import merged, named_model, pass_through
from trimtab.settings import parse
from trimtab.telemetry import UpstreamCall
from trimtab.upstream.settings import UpstreamSettings

JSON = [(b"content-type", b"application/json")]
QUIET = '[limits]\ndiscover = false\nask_usage = "never"\n'


def incoming(path: str, headers: list[tuple[bytes, bytes]] = JSON) -> Incoming:
    return Incoming("POST", path, path, b"", headers, "r", first_values(headers), asks_of({}))


NAMED = [
    ("/v1/embeddings", b'{"model":"e","input":"x"}', "e"),
    ("/v1/embeddings", b'{"input":{"model":"inner"},"model":"e\\u00e9"}', "eé"),
    ("/v1/embeddings", b'{"input":"bad \\ud83d","model":"e"}', "e"),
    ("/v1/embeddings", b'{"model":"bad \\ud83d"}', "bad �"),
    ("/v1/embeddings", b'{"input":"x"}', None),
    ("/v1/embeddings", b'{"model":null}', None),
    ("/v1/embeddings", b'\xef\xbb\xbf{"model":"e"}', "e"),
    ("/v1/embeddings", '{"model":"e"}'.encode("utf-16"), "e"),
    ("/v1/embeddings", b'{"temperature":NaN,"model":"e"}', "e"),
    ("/v1/embeddings", b'{"temperature":NaN,"model":5}', None),
    ("/v1/embeddings", b'{"model":5}', None),
    ("/v1/embeddings", b'{"model":"%b"}' % (b"m" * 1_001), None),
    ("/v1/embeddings", b'["model"]', None),
    ("/v1/embeddings", b"{", None),
    ("/v1/embeddings", b"\xff", None),
    ("/v1/embeddings", b"", None),
    ("/v1/x", b'{"model":' + b"[" * 100_000 + b"]" * 100_000 + b"}", None),
    ("/v1/models/gpt-4o", b"", "gpt-4o"),
    ("/v1/models/org%2Fname", b"", "org/name"),
    ("/v1/models/org/name", b"", "org/name"),
    ("/v1/models/", b"", None),
]


@pytest.mark.parametrize(("path", "body", "model"), NAMED, ids=range(len(NAMED)))
def test_the_model_is_read_where_it_can_be(path: str, body: bytes, model: str | None) -> None:
    assert named_model(incoming(path), body) == model


A = UpstreamSettings(name="a", base_url="http://a/v1", models=("gpt-*", "shared"))
B = UpstreamSettings(name="b", base_url="http://b/v1", models=("shared", "qwen*"))


def test_a_list_keeps_each_models_own_entry_byte_for_byte() -> None:
    one = b'{"data":[{"id":"gpt-4o", "n":1e21},{"id":"shared","of":"a"},{"id":"dall-e"}],"x":1}'
    two = b'{"data":[{"id":"shared","of":"b"},{"id":"qwen3"},{"id":"gpt-4o","of":"b"},{"no":"id"},5]}'
    got = merged([(A, one), (B, two)], [A, B])
    assert got == b'{"object":"list","data":[{"id":"gpt-4o", "n":1e21},{"id":"shared","of":"a"},{"id":"qwen3"}]}'


@pytest.mark.parametrize("nothing", [None, b"", b"null", b"[]", b"{}", b'{"data":"x"}', b'{"data":[', b"<html>"])
def test_what_is_no_list_adds_nothing(nothing: bytes | None) -> None:
    assert merged([(A, nothing), (B, b'{"data":[{"id":"qwen3"}]}')], [A, B]).endswith(b'[{"id":"qwen3"}]}')


# -- through the running proxy -----------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def two(
    first: Script, second: Script, toml: str = ""
) -> AsyncIterator[tuple[Running, ScriptedUpstream, ScriptedUpstream]]:
    """A proxy in front of `a`, which takes gpt-* with the client's key, and `b`, which takes the rest with its own."""
    async with (
        ScriptedUpstream(first) as a,
        ScriptedUpstream(second) as b,
        running(parse(settings(a.base_url, b.base_url) + toml, {})) as proxy,
    ):
        yield proxy, a, b


def settings(a: str, b: str) -> str:
    return (
        f'[[upstreams]]\nname = "a"\nbase_url = "{a}"\nmodels = ["gpt-*"]\nretries = 0\n'
        f'[[upstreams]]\nname = "b"\nbase_url = "{b}"\nmodels = ["qwen*", "e5"]\napi_key = "sk-b"\nretries = 0\n'
        + QUIET
    )


async def get(url: str, **headers: str) -> Call:
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return Call(answer.status, answer.headers, await answer.read())


def listing(*names: str) -> Script:
    return json_reply({"object": "list", "data": [{"id": name, "object": "model"} for name in names]})


@pytest.mark.anyio
async def test_chats_go_where_their_model_is_served_with_that_upstreams_key() -> None:
    async with two(json_reply(COMPLETION), json_reply(COMPLETION)) as (proxy, a, b):
        for model in ("gpt-4o", "qwen3"):
            await post(proxy.url, {"model": model, "messages": chat(1)}, authorization="Bearer sk-client")
        unknown = await post(proxy.url, {"model": "claude", "messages": chat(1)})
    assert [r.json()["model"] for r in a.requests] == ["gpt-4o"]
    assert [r.json()["model"] for r in b.requests] == ["qwen3"]
    assert a.requests[0].header(b"authorization") == b"Bearer sk-client"
    assert b.requests[0].header(b"authorization") == b"Bearer sk-b"
    assert (unknown.status, unknown.json()["error"]["code"]) == (404, "model_not_found")
    assert "qwen*" in unknown.json()["error"]["message"]


@pytest.mark.anyio
async def test_a_chat_that_cannot_be_read_goes_where_its_model_is_served_and_one_without_a_model_to_the_first() -> None:
    unread = [
        b'{"model":"qwen3","messages":"hi"}',
        b'\xef\xbb\xbf{"model":"qwen3","messages":[]}',
        b'{"model":"qwen3","x":NaN}',
    ]
    nameless = [b'{"messages":"hi"}', b'{"messages":[]}', b'{"model":null,"messages":[]}']
    async with two(json_reply(COMPLETION), json_reply(COMPLETION)) as (proxy, a, b):
        answers = [await post(proxy.url, body) for body in (*unread, *nameless)]
        planned = await post(proxy.url, nameless[1], "/v1/context/plan")
    assert {answer.status for answer in (*answers, planned)} == {200}
    assert [received.body for received in b.requests] == unread
    assert [received.body for received in a.requests] == nameless


@pytest.mark.anyio
async def test_other_json_paths_go_where_their_model_is_served_byte_for_byte() -> None:
    bodies = [b'{ "model":"e5",\n"input":"\\u00e9" }', b'{"model":"gpt-x","input":1e21}', b'{"input":"x"}', b"{broken"]
    async with two(json_reply({}), json_reply({})) as (proxy, a, b):
        for body in bodies:
            answer = await post(proxy.url, body, "/v1/embeddings", content_type="application/json")
            assert answer.status == 200
        unknown = await post(proxy.url, b'{"model":"tts-1"}', "/v1/audio/speech", content_type="application/json")
    assert [r.body for r in b.requests] == bodies[:1]
    assert [r.body for r in a.requests] == bodies[1:]
    assert b.requests[0].header(b"content-type") == b"application/json"
    assert b.requests[0].header(b"authorization") == b"Bearer sk-b"
    assert unknown.json()["error"]["code"] == "model_not_found"


@pytest.mark.anyio
async def test_a_compressed_body_is_read_and_sent_on_plain() -> None:
    import gzip

    body = b'{"model":"e5","input":"x"}'
    async with two(json_reply({}), json_reply({})) as (proxy, _, b):
        answer = await post(
            proxy.url, gzip.compress(body), "/v1/embeddings", content_type="application/json", content_encoding="gzip"
        )
    assert answer.status == 200
    assert b.requests[0].body == body
    assert b.requests[0].header(b"content-encoding") is None


@pytest.mark.anyio
async def test_a_body_beyond_the_bound_is_refused_only_where_it_has_to_be_read() -> None:
    upload = b"x" * (1 << 20) * 2
    async with two(json_reply({}), json_reply({}), "[server]\nmax_body_mb = 1\n") as (proxy, a, _):
        read = await post(proxy.url, upload, "/v1/embeddings", content_type="application/json")
        streamed = await post(proxy.url, upload, "/v1/files", content_type="application/octet-stream")
    assert (read.status, read.json()["error"]["code"]) == (413, "request_too_large")
    assert streamed.status == 200
    assert [len(r.body) for r in a.requests] == [len(upload)]


@pytest.mark.anyio
async def test_a_model_asked_about_by_name_is_asked_for_where_it_is_served() -> None:
    async with two(json_reply({"id": "a"}), json_reply({"id": "b"})) as (proxy, _, _b):
        found = [(await get(f"{proxy.url}/v1/models/{name}")).json()["id"] for name in ("gpt-4o", "qwen3")]
        unknown = await get(f"{proxy.url}/v1/models/claude")
    assert found == ["a", "b"]
    assert unknown.status == 404


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/", "/v1//models", "/v1/models?limit=5", "/models"])
async def test_the_models_of_all_upstreams_are_one_list(path: str) -> None:
    async with two(listing("gpt-4o", "dall-e"), listing("qwen3", "gpt-imitation")) as (proxy, a, b):
        answer = await get(proxy.url + path, Authorization="Bearer sk-client")
    assert [entry["id"] for entry in answer.json()["data"]] == ["gpt-4o", "qwen3"]
    assert answer.json()["object"] == "list"
    assert answer.headers["content-type"] == "application/json"
    assert a.requests[0].header(b"authorization") == b"Bearer sk-client"
    assert b.requests[0].header(b"authorization") == b"Bearer sk-b"


@pytest.mark.anyio
async def test_azures_list_is_of_its_own_server() -> None:
    async with two(listing("gpt-4o"), listing("qwen3")) as (proxy, a, b):
        answer = await get(proxy.url + "/openai/models?api-version=1")
    assert [entry["id"] for entry in answer.json()["data"]] == ["gpt-4o"]
    assert (len(a.requests), len(b.requests)) == (1, 0)


@pytest.mark.anyio
async def test_the_clients_key_is_shown_to_the_first_upstreams_server_alone() -> None:
    async with ScriptedUpstream(listing("a")) as a, ScriptedUpstream(listing("b")) as b:
        toml = "".join(
            f'[[upstreams]]\nname = "{n}"\nbase_url = "{u.base_url}"\nmodels = ["{n}"]\n'
            for n, u in (("a", a), ("b", b))
        )
        async with running(parse(toml + QUIET, {})) as proxy:
            answer = await get(proxy.url + "/v1/models", Authorization="Bearer sk-client")
    assert [entry["id"] for entry in answer.json()["data"]] == ["a", "b"]
    assert a.requests[0].header(b"authorization") == b"Bearer sk-client"
    assert b.requests[0].header(b"authorization") is None


FAILING = {
    "refuses": json_reply({"error": {"message": "no"}}, 401),
    "hangs up": [CLOSE],
    "says nonsense": reply(200, b"<html>"),
}


@pytest.mark.anyio
@pytest.mark.parametrize("how", FAILING)
async def test_an_upstream_that_lists_nothing_is_left_out(how: str) -> None:
    async with two(FAILING[how], listing("qwen3")) as (proxy, _, _b):
        answer = await get(proxy.url + "/v1/models")
    assert [entry["id"] for entry in answer.json()["data"]] == ["qwen3"]


@pytest.mark.anyio
async def test_an_upstream_that_is_silent_holds_the_list_up_for_five_seconds_at_most() -> None:
    async with two([STALL], listing("qwen3")) as (proxy, a, _):
        answer = await get(proxy.url + "/v1/models")
        await asyncio.wait_for(a.left.wait(), 2)
    assert [entry["id"] for entry in answer.json()["data"]] == ["qwen3"]


@pytest.mark.anyio
async def test_where_no_upstream_lists_any_the_first_ones_answer_stands() -> None:
    async with two(json_reply({"error": {"message": "Incorrect API key"}}, 401), json_reply({}, 500)) as (proxy, _, _b):
        answer = await get(proxy.url + "/v1/models")
    assert (answer.status, answer.json()["error"]["message"]) == (401, "Incorrect API key")


@pytest.mark.anyio
async def test_an_upstream_that_is_down_does_not_hide_the_others() -> None:
    async with ScriptedUpstream(listing("gpt-4o")) as a:
        text = settings(a.base_url, f"http://127.0.0.1:{closed_port()}/v1")
        async with running(parse(text, {})) as proxy:
            answer = await get(proxy.url + "/v1/models")
            line = msgspec.json.decode(proxy.log.getvalue().splitlines()[-1])
    assert [entry["id"] for entry in answer.json()["data"]] == ["gpt-4o"]
    assert (line["outcome"], line["status"], line["path"]) == ("unmanaged", 200, "passthrough")
    assert (line["method"], line["endpoint"]) == ("GET", "/v1/models")


@pytest.mark.anyio
async def test_a_summary_model_on_another_server_is_not_shown_the_clients_key() -> None:
    def written(received: Received) -> list[Step]:
        text = "The user asked numbered questions and wants the first one repeated at the end."
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return [*json_reply({**COMPLETION, "choices": [choice]})]

    small = '[models."*"]\ncontext_size = 8192\nmax_output_tokens = 1024\n[compaction]\nmodel = "writer"\n'
    async with ScriptedUpstream(json_reply(COMPLETION)) as a, ScriptedUpstream(written) as b:
        named = (("a", a, "gpt-*"), ("b", b, "writer"))
        tables = [f'[[upstreams]]\nname = "{n}"\nbase_url = "{u.base_url}"\nmodels = ["{g}"]\n' for n, u, g in named]
        async with running(parse("".join(tables) + small + QUIET, {})) as proxy:
            body = {"model": "gpt-4o", "messages": chat(16)}
            answer = await post(proxy.url, body, authorization="Bearer sk-client")
    assert answer.headers["x-trimtab-summary"] == "miss"
    assert a.requests[0].header(b"authorization") == b"Bearer sk-client"
    assert {r.header(b"authorization") for r in b.requests} == {None}


# -- one upstream ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "chunks", "length", "body"),
    [
        ("GET", (), b"0", b""),
        ("DELETE", (), b"0", b""),
        ("POST", (b"ab", b"c"), None, b"abc"),
        ("PUT", (b"x" * 100_000,), None, b"x" * 100_000),
    ],
)
@pytest.mark.anyio
async def test_other_requests_go_on_as_they_come(
    method: str, chunks: tuple[bytes, ...], length: bytes | None, body: bytes
) -> None:
    async with calling(json_reply({})) as (calls, _, server):
        notes = Notes("r", "passthrough")
        await pass_through(calls, request("/v1/files", method), Given(*chunks), Kept(), notes)
    assert server.requests[0].method == method
    assert server.requests[0].body == body
    assert server.requests[0].header(b"content-length") == length
    assert (notes.upstream, notes.calls) == ("up", [UpstreamCall("up", 200)])


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/v1/responses/input_tokens", "/v1/responses/compact"])
async def test_a_mark_reaches_no_path_below_a_managed_one(path: str) -> None:
    listed = "messages" if "messages" in path else "input"
    raw = b'{"model": "m",  "%s": [{"role": "user", "content": "x", "pinned": true}] }' % listed.encode()
    async with ScriptedUpstream(json_reply({"input_tokens": 1})) as upstream, running(upstream.base_url) as proxy:
        assert (await post(proxy.url, raw, path, content_type="application/json")).status == 200
        assert upstream.requests[0].body == raw.replace(b', "pinned": true', b"")


@pytest.mark.anyio
async def test_with_one_upstream_no_body_is_held_and_every_model_is_its_own() -> None:
    async with calling(json_reply({}), models=("gpt-*",)) as (calls, _, server):
        body, embeddings = Given(b'{"model":', b'"e5"}'), request("/v1/embeddings", content_type="application/json")
        await pass_through(calls, embeddings, body, Kept(), Notes("r", "passthrough"))
    assert server.requests[0].header(b"transfer-encoding") == b"chunked"
    assert server.requests[0].body == b'{"model":"e5"}'
