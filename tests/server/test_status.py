"""How the process is doing, as the pages show it."""

from __future__ import annotations

import pytest

from tests.support.chat import COMPLETION, OVERFLOW, WINDOW, post
from tests.support.conversations import agent_run, chat
from tests.support.pages import read
from tests.support.running import running
from tests.support.scripted import ScriptedUpstream, closed_port, json_reply
from tests.support.summaries import SUMMARIES, writing_as_writer
from tests.support.valkey import Valkey

pytestmark = pytest.mark.anyio

PRICED = WINDOW + "prices = { input = 2.0, output = 8.0, cache_read = 0.5 }\n"


async def test_totals_are_those_of_the_metrics() -> None:
    answer = {**COMPLETION, "usage": {"prompt_tokens": 5_000, "prompt_tokens_details": {"cached_tokens": 4_000}}}
    async with ScriptedUpstream(json_reply(answer)) as upstream, running(upstream.base_url, PRICED) as proxy:
        for cycles in (1, 30, 40):
            await post(proxy.url, {"model": "m", "messages": agent_run(cycles)})
        totals = (await read(proxy.url, "/status"))["totals"]
        kept = (await read(proxy.url, "/exchanges"))["exchanges"]
    assert (totals["requests"], totals["outcomes"]) == (3, {"passed": 1, "shaped": 2})
    assert totals["original"] == sum(each["original"] for each in kept)
    assert totals["sent"] == sum(each["sent"] for each in kept)
    assert (totals["cached"], totals["cacheable"]) == (12_000, 15_000)
    removed = totals["original"] - totals["sent"]
    assert totals["saved_usd"] == pytest.approx(removed * 0.5 / 1e6)


async def test_an_upstream_that_does_not_answer_is_seen() -> None:
    async with running(f"http://127.0.0.1:{closed_port()}/v1", WINDOW) as proxy:
        before = await read(proxy.url, "/status")
        await post(proxy.url, {"model": "m", "messages": agent_run(1)})
        after = await read(proxy.url, "/status")
    assert [before["upstreams"][0][key] for key in ("status", "calls", "failed")] == [None, 0, 0]
    assert [after["upstreams"][0][key] for key in ("status", "calls", "failed")] == [0, 1, 1]
    assert before["redis"] is None
    assert before["summaries"]["state"] == "off"


async def test_redis_is_up_or_down(valkey: Valkey) -> None:
    toml = f'[redis]\nurl = "redis://127.0.0.1:{valkey.port}"\n'
    async with ScriptedUpstream() as upstream, running(upstream.base_url, toml) as proxy:
        assert (await read(proxy.url, "/status"))["redis"] == "up"


async def test_summaries_that_fail_are_seen_with_the_reason() -> None:
    async with (
        ScriptedUpstream(writing_as_writer) as upstream,
        running(upstream.base_url, SUMMARIES) as proxy,
    ):
        await post(proxy.url, {"model": "m", "messages": chat(60)})
        found = (await read(proxy.url, "/status"))["summaries"]
    assert (found["state"], found["failed"]) == ("on", 0)
    assert found["calls"] >= 1


async def test_models_have_their_limits_with_sources_and_what_was_learned() -> None:
    scripts = [json_reply(OVERFLOW, 400), json_reply(COMPLETION)]
    toml = '[models."named"]\ncontext_size = 9000\n[models."glob*"]\ncontext_size = 100\n'
    async with ScriptedUpstream(*scripts) as upstream, running(upstream.base_url, toml) as proxy:
        await post(proxy.url, {"model": "asked", "messages": agent_run(10)})
        found = (await read(proxy.url, "/models"))["models"]
    asked, named = found
    assert (asked["model"], asked["source"], asked["learned"], asked["context_size"]) == (
        "asked",
        "learned",
        True,
        4096,
    )
    assert (asked["stated_source"], asked["stated_size"]) == ("default", 128_000)
    assert (named["model"], named["source"], named["context_size"], named["learned"]) == (
        "named",
        "configured",
        9_000,
        False,
    )
