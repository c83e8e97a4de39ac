"""The provider's prefix cache: the same history gives the same bytes, and what was sent is built upon."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.cases.trial import tried, window
from tests.support.chat import COMPLETION, post
from tests.support.conversations import agent_run, prose
from tests.support.running import running
from tests.support.scripted import ScriptedUpstream, json_reply

pytestmark = pytest.mark.anyio

CASES = {
    "B025": "the same request gives the same bytes in every process, key order included",
    "B027": "each body begins with the body before it, but at the few clearing points",
    "B028": "no time, counter or random value gets into what is sent; the client's own clock is the client's",
    "B078": "clearing goes down to a low-water mark, so one request in many rewrites what was sent",
    "B079": "a cleared result reads the same in every later request",
    "B081": "a pause changes nothing: there is no clock in the plan (clearing in a pause is optional, and not done)",
    "B122": "a conversation within its limit costs what it costs without the proxy: the bytes are the same",
    "B145": "another replica, or the same after a restart, sends the same bytes",
}
TOOLS = '"tools":[{"type":"function","function":{"name":"read","parameters":{"b":1,"a":2}}}]'


async def run(steps: int, toml: str, fresh: bool = False) -> list[bytes]:
    """The bodies of an agent's run as the upstream got them, a request a step; `fresh`: a new proxy for each."""
    bodies = []
    if fresh:
        for n in range(1, steps + 1):
            bodies.append((await tried({"model": "m", "messages": agent_run(n, 400)}, toml=toml)).asked[0].body)
        return bodies
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, toml) as proxy:
        for n in range(1, steps + 1):
            await post(proxy.url, {"model": "m", "messages": agent_run(n, 400)})
        return [received.body for received in upstream.requests]


def breaks(bodies: list[bytes]) -> int:
    """Bodies that do not begin with the one before, but for its closing brackets."""
    return sum(not after.startswith(before[:-2]) for before, after in pairwise(bodies))


async def test_each_body_builds_upon_the_last() -> None:
    bodies = await run(60, window(8_192))
    assert breaks(bodies) <= 8
    assert max(map(len, bodies)) > len(bodies[15])


async def test_what_fits_never_breaks_and_is_the_clients_own() -> None:
    bodies = await run(10, window(100_000))
    assert breaks(bodies) == 0


async def test_replicas_and_restarts_send_the_same_bytes() -> None:
    kept = await run(24, window(8_192))
    assert await run(24, window(8_192), fresh=True) == kept


async def test_the_same_request_gives_the_same_bytes_however_often() -> None:
    raw = '{"top_p":1,' + TOOLS + ',"max_tokens":7000,"model":"m","messages":[{"role":"user","content":"'
    body = (raw + prose(5_000) + '"}],"z":1,"a":2}').encode()
    trial = await tried(body, toml=window(8_192, 8_000), times=5)
    sent = {received.body for received in trial.asked}
    assert len(sent) == 1
    assert TOOLS.encode() in sent.pop()


async def test_a_cleared_result_reads_the_same_ever_after() -> None:
    toml = window(8_192)
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, toml) as proxy:
        for n in range(20, 40):
            await post(proxy.url, {"model": "m", "messages": agent_run(n, 400)})
    seen: dict[int, str] = {}
    for received in upstream.requests:
        messages: list[Any] = received.json()["messages"]
        for i, message in enumerate(messages):
            text = str(message.get("content"))
            if text.startswith("[This tool ran"):
                assert seen.setdefault(i, text) == text
            else:
                assert i not in seen  # what was cleared stays cleared


async def test_the_clients_clock_is_left_alone() -> None:
    system = {"role": "system", "content": "Today is 2026-11-29T12:00:01Z. You are X."}
    trial = await tried({"model": "m", "messages": [system, *agent_run(30)[1:]]}, toml=window(8_192))
    assert trial.messages[0] == system
