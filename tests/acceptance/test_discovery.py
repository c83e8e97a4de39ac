"""What upstreams say of themselves is found by itself, under any of a model's names; a discovery endpoint that is dead,
broken, lying or silent costs nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.chat import COMPLETION, post
from tests.support.conversations import chat
from tests.support.running import running
from tests.support.scripted import CLOSE, STALL, Received, ScriptedUpstream, Step, json_reply, reply

pytestmark = pytest.mark.anyio

DISCOVERING = '[limits]\ndiscover = true\nfirst_wait_s = 0.3\nask_usage = "never"\n'
HTML = reply(200, b"<html><body>Welcome</body></html>", [(b"content-type", b"text/html")])


class Upstream:
    """Answers chats, and everything else as it is told."""

    def __init__(self, other: Sequence[Step]) -> None:
        self.other = other

    def __call__(self, received: Received) -> Sequence[Step]:
        return json_reply(COMPLETION) if received.target.endswith("/chat/completions") else self.other


def listed(**fields: Any) -> list[Step]:
    return json_reply({"object": "list", "data": [{"id": "house-model", "object": "model", **fields}]})


FOUND = {  # what the listing says of the model, and the window it means
    "max_model_len": ({"max_model_len": 20_000}, 20_000),
    "context_length": ({"context_length": 24_000}, 24_000),
    "context_window": ({"context_window": 28_000}, 28_000),
    "max_context_length": ({"max_context_length": 30_000}, 30_000),
}


@pytest.mark.parametrize(("fields", "window"), FOUND.values(), ids=FOUND)
async def test_a_window_that_the_listing_states_is_found(fields: dict[str, Any], window: int) -> None:
    async with (
        ScriptedUpstream(Upstream(listed(**fields))) as upstream,
        running(upstream.base_url, DISCOVERING) as proxy,
    ):
        got = await post(proxy.url, {"model": "house-model", "messages": chat(1)})
        plan = await post(proxy.url, {"model": "house-model", "messages": chat(1)}, "/v1/context/plan")
        metrics = await proxy.metrics()
    assert got.headers["x-trimtab-limit-source"] == "discovered"
    assert (plan.json()["context_size"], plan.json()["limit_source"]) == (window, "discovered")
    assert 'trimtab_limit_events_total{kind="discovery_found"}' in metrics


ALIASES = ["gpt-4o", "openai/gpt-4o", "models/gpt-4o", "gpt-4o-2024-08-06", "gpt-4o:free", "ft:gpt-4o:acme::abc123"]


@pytest.mark.parametrize("name", ALIASES)
async def test_other_names_of_a_known_model_lead_to_it_and_the_source_is_shown(name: str) -> None:
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url) as proxy:
        plan = (await post(proxy.url, {"model": name, "messages": chat(1)}, "/v1/context/plan")).json()
    assert (plan["context_size"], plan["limit_source"]) == (128_000, "bundled")
    assert "gpt-4o" in plan["limit_detail"]


# A number that cannot be is as good as none.
BROKEN: dict[str, tuple[Sequence[Step], str]] = {
    "dead": ([CLOSE], "discovery_unreachable"),
    "hanging": ([STALL], "discovery_unreachable"),
    "500": (reply(500, b"oops"), "discovery_unreachable"),
    "HTML": (HTML, "discovery_nonsense"),
    "not JSON": (reply(200, b'{"data": ['), "discovery_nonsense"),
    "negative": (listed(max_model_len=-1), "discovery_silent"),
    "zero": (listed(context_length=0), "discovery_silent"),
    "absurd": (listed(context_length=10**15), "discovery_silent"),
    "a word": (listed(context_window="large"), "discovery_silent"),
    "nothing of limits": (listed(), "discovery_silent"),
}


@pytest.mark.parametrize(("other", "kind"), BROKEN.values(), ids=BROKEN)
async def test_an_endpoint_that_does_not_tell_costs_nothing(other: Sequence[Step], kind: str) -> None:
    body = {"model": "house-model", "messages": chat(1)}
    async with ScriptedUpstream(Upstream(other)) as upstream, running(upstream.base_url, DISCOVERING) as proxy:
        began = time.perf_counter()
        first = await post(proxy.url, body)
        waited = time.perf_counter() - began
        began = time.perf_counter()
        later = [await post(proxy.url, body) for _ in range(5)]
        settled = (time.perf_counter() - began) / 5
        metrics = await proxy.metrics()
    chats = [r for r in upstream.requests if r.target.endswith("/chat/completions")]
    assert {call.status for call in (first, *later)} == {200}
    assert {call.headers["x-trimtab-limit-source"] for call in (first, *later)} == {"default"}
    assert [request.json() for request in chats] == [body] * 6
    assert waited < 1.5  # first_wait_s and the machine's own pace
    assert settled < 0.2
    if other[0] is not STALL:  # it is given up after the test has ended
        assert f'trimtab_limit_events_total{{kind="{kind}"}}' in metrics
