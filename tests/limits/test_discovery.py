"""Asking upstreams: what servers of each kind answer, and that a dead one costs nothing."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from tests.support.clock import Clock
from trimtab.limits.discovery import Discovery, Fetch
from trimtab.limits.events import Event

pytestmark = pytest.mark.anyio

Answers = dict[str, object]


class Asking:
    """A discovery, its clock, its events, and the paths it fetched from `answers`."""

    def __init__(self, answers: Answers, *, first_wait_s: float = 1.0) -> None:
        self.answers, self.clock, self.events, self.paths = answers, Clock(), list[Event](), list[str]()
        self.changes = 0
        self.discovery = Discovery(
            first_wait_s=first_wait_s, refresh_s=600.0, clock=self.clock, notify=self.events.append, changed=self.change
        )

    def change(self) -> None:
        self.changes += 1

    async def fetch(self, upstream: str, path: str, body: bytes | None = None) -> bytes | None:
        key = path if body is None else f"{path} {json.loads(body)['model']}"
        self.paths.append(key)
        answer = self.answers.get(key)
        if isinstance(answer, Exception):
            raise answer
        if answer == "hang":
            await asyncio.Event().wait()
        return answer if answer is None or isinstance(answer, bytes) else json.dumps(answer).encode()

    async def window(self, model: str) -> int | None:
        await self.discovery.ask("u", model, self.fetch)
        claim = self.discovery.claim("u", model)
        return claim and claim.context_size

    async def round_ends(self) -> None:
        running = [task for task in asyncio.all_tasks() if task.get_name() == "discover u"]
        if running:
            await asyncio.wait(running)


def listed(*entries: Answers) -> Answers:
    return {"object": "list", "data": list(entries)}


SERVERS = [
    ("vLLM", {"models": listed({"id": "qwen", "owned_by": "vllm", "max_model_len": 32768})}, "qwen", 32_768),
    ("an alias of a listed name", {"models": listed({"id": "gpt-x", "context_window": 9000})}, "openai/gpt-x", 9_000),
    (
        "llama.cpp",
        {
            "models": listed({"id": "m.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 8192}}),
            "/props": {"default_generation_settings": {"n_ctx": 2048}, "total_slots": 1},
        },
        "any-name",
        2_048,
    ),
    ("llama.cpp without a listing", {"/props": {"default_generation_settings": {"n_ctx": 2048}}}, "m", 2_048),
    (
        "Ollama, loaded",
        {
            "models": listed({"id": "llama3.1:latest", "owned_by": "library"}),
            "/api/ps": {"models": [{"name": "llama3.1:latest", "context_length": 4096}]},
        },
        "llama3.1",
        4_096,
    ),
    (
        "Ollama, not loaded",
        {
            "models": listed({"id": "llama3.1:latest", "owned_by": "library"}),
            "/api/ps": {"models": []},
            "/api/show llama3.1": {"parameters": "num_ctx 16384"},
        },
        "llama3.1",
        16_384,
    ),
    (
        "LM Studio",
        {
            "models": listed({"id": "a"}),
            "/api/v0/models": listed({"id": "a", "max_context_length": 32768, "loaded_context_length": 4096}),
        },
        "a",
        4_096,
    ),
    ("TGI", {"models": listed({"id": "tgi"}), "/info": {"max_total_tokens": 4096}}, "tgi", 4_096),
    ("one that states nothing", {"models": listed({"id": "a", "owned_by": "openai"})}, "a", None),
    ("a dead one", {}, "a", None),
]


@pytest.mark.parametrize(("answers", "model", "window"), [s[1:] for s in SERVERS], ids=[s[0] for s in SERVERS])
async def test_servers(answers: Answers, model: str, window: int | None) -> None:
    asking = Asking(answers)
    assert await asking.window(model) == window
    assert asking.changes == (window is not None)


async def test_a_long_listing_of_a_hosted_provider_is_not_followed_by_guesses() -> None:
    asking = Asking({"models": listed(*({"id": f"gpt-{i}", "owned_by": "openai"} for i in range(40)))})
    await asking.window("gpt-1")
    assert asking.paths == ["models"]


BAD = [
    ({"models": b"<html>hello</html>"}, "discovery_nonsense"),
    ({"models": listed({"id": "a", "max_model_len": -5})}, "discovery_silent"),
    ({"models": OSError("refused")}, "discovery_unreachable"),
    ({"models": RuntimeError("a bug of a client")}, "discovery_unreachable"),
    ({}, "discovery_unreachable"),
]


@pytest.mark.parametrize(("answers", "kind"), BAD)
async def test_bad_answers_are_counted(answers: Answers, kind: str) -> None:
    asking = Asking(answers)
    assert await asking.window("a") is None
    assert [event.kind for event in asking.events] == [kind]


async def test_what_was_known_stays_when_the_upstream_dies() -> None:
    asking = Asking({"models": listed({"id": "a", "max_model_len": 4096})})
    await asking.window("a")
    asking.answers.clear()
    asking.clock.now += 601
    await asking.window("a")
    await asking.round_ends()
    assert await asking.window("a") == 4_096


async def test_a_changed_window_is_found_at_the_next_round_without_waiting() -> None:
    asking = Asking({"models": listed({"id": "a", "max_model_len": 4096})})
    await asking.window("a")
    asking.answers["models"] = listed({"id": "a", "max_model_len": 8192})
    assert await asking.window("a") == 4_096
    asking.clock.now += 601
    assert await asking.window("a") == 4_096
    await asking.round_ends()
    assert await asking.window("a") == 8_192


async def test_a_dead_upstream_is_asked_ever_more_seldom() -> None:
    asking = Asking({})
    rounds = 0
    for _ in range(1000):
        asking.clock.now += 1
        await asking.window("a")
        await asking.round_ends()
    rounds = asking.paths.count("models")
    assert 5 <= rounds <= 9


async def test_a_hang_costs_the_first_request_its_short_wait_and_no_other() -> None:
    asking = Asking({"models": "hang"}, first_wait_s=0.05)
    loop = asyncio.get_running_loop()
    start = loop.time()
    assert await asking.window("a") is None
    first = loop.time() - start
    start = loop.time()
    for _ in range(100):
        assert await asking.window("a") is None
    assert loop.time() - start < first
    await asking.discovery.aclose()
    assert asking.paths == ["models"]


async def test_a_second_model_of_an_ollama_is_asked_about_and_the_first_again_once_loaded() -> None:
    asking = Asking(
        {"models": listed({"id": "a"}), "/api/ps": {"models": []}, "/api/show a": {"parameters": "num_ctx 9000"}}
    )
    assert await asking.window("a") == 9_000
    asking.answers["/api/show b"] = {"parameters": "num_ctx 7000"}
    await asking.window("b")
    await asking.round_ends()
    assert await asking.window("b") == 7_000
    asking.answers["/api/ps"] = {"models": [{"name": "a:latest", "context_length": 4096}]}
    asking.clock.now += 21
    await asking.window("a")
    await asking.round_ends()
    assert await asking.window("a") == 4_096


async def test_names_that_a_client_invents_do_not_start_rounds() -> None:
    asking = Asking({"models": listed({"id": "a", "max_model_len": 4096})})
    for i in range(50):
        await asking.window(f"invented-{i}")
        await asking.round_ends()
    assert asking.paths.count("models") <= 2


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def server(handler: Handler) -> AsyncIterator[Fetch]:
    """A real server whose every path is `handler`, and a `fetch` that asks it."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]

    async def fetch(upstream: str, path: str, body: bytes | None = None) -> bytes | None:
        url = f"http://127.0.0.1:{port}" + (path if path.startswith("/") else f"/v1/{path}")
        async with aiohttp.ClientSession() as session, session.request("POST" if body else "GET", url, data=body) as r:
            return await r.read() if r.status == 200 else None

    try:
        yield fetch
    finally:
        await runner.cleanup()


async def _says(request: web.Request) -> web.StreamResponse:
    if request.path != "/v1/models":
        return web.Response(status=404)
    return web.json_response(listed({"id": "m", "max_model_len": 4096}))


async def _breaks(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def _fails(request: web.Request) -> web.StreamResponse:
    return web.Response(status=500, text="no")


@pytest.mark.parametrize(("handler", "window"), [(_says, 4_096), (_fails, None), (_breaks, None)])
async def test_over_a_real_connection(handler: Handler, window: int | None) -> None:
    asking = Asking({})
    async with server(handler) as fetch:
        await asking.discovery.ask("u", "m", fetch)
    claim = asking.discovery.claim("u", "m")
    assert (claim and claim.context_size) == window
    assert asking.events[0].kind == ("discovery_found" if window else "discovery_unreachable")
