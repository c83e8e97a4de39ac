"""Decisions with what was learned of the model and the conversation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.exchange.requests import incoming, request
from tests.support.conversations import agent_run, chat, cycle
from tests.support.scripted import ScriptedUpstream, json_reply
from trimtab.context.policy import ShapingSettings
from trimtab.errors import InvalidRequest
from trimtab.exchange.access import credential
from trimtab.exchange.calls import Calls
from trimtab.exchange.decide import Shaping
from trimtab.exchange.decider import Decider
from trimtab.exchange.policies import PROFILES, Policies
from trimtab.limits import Limits, LimitsSettings, ModelSettings
from trimtab.overflow.classify import Overflow
from trimtab.upstream.client import Client
from trimtab.upstream.settings import UpstreamSettings

pytestmark = pytest.mark.anyio


UP = UpstreamSettings(name="up", base_url="http://127.0.0.1:9/v1", retries=0)
SMALL = ModelSettings(context_size=8_192, max_output_tokens=1_024)


class Desk:
    """A decider, and its limits to look at."""

    def __init__(self, upstream: UpstreamSettings = UP, models: dict[str, ModelSettings] | None = None) -> None:
        settings = LimitsSettings(discover=models is None, first_wait_s=5.0)
        self.upstream = upstream
        self.limits = Limits(models, settings=settings)
        self.client = Client()
        self.calls = Calls([upstream], self.client)
        self.decider = Decider(self.limits, Policies(ShapingSettings(), PROFILES, None))

    async def decide(self, messages: list[Any], headers: dict[str, str] | None = None, **fields: Any) -> Shaping:
        asked, came = request(messages, **fields), incoming(**(headers or {}))
        reading = self.decider.read(asked.body, b"")
        chosen = self.decider.choose(reading.request, self.upstream, came.asks.profile, came.asks.hint)
        limit = await self.limits.limit_of("up", asked.model, self.calls.fetching(credential(came)))
        return self.decider.decide(reading, self.upstream, chosen, limit)

    async def aclose(self) -> None:
        await self.limits.aclose()
        await self.client.aclose()


def desk() -> Desk:
    return Desk(models={"*": SMALL})


async def test_the_upstream_is_asked_for_a_limit_that_is_not_configured() -> None:
    reported = {"data": [{"id": "m", "max_model_len": 9_000}]}
    async with ScriptedUpstream(json_reply(reported)) as server:
        at = Desk(UpstreamSettings(name="up", base_url=server.base_url, retries=0))
        made = await at.decide(chat(1), {"authorization": "Bearer client"})
        await at.aclose()
    assert (made.limit.context_size, made.limit.source) == (9_000, "discovered")
    assert server.requests[0].header(b"authorization") == b"Bearer client"


async def test_a_profiles_budget_caps_the_models() -> None:
    at = Desk(models={"*": ModelSettings(context_size=128_000, max_output_tokens=1_024)})
    assert (await at.decide(chat(1), {"x_trimtab_profile": "planner_input"})).budget.usable == 16_000
    assert (await at.decide(chat(1))).budget.usable == 126_976


@pytest.mark.parametrize("header", ["x_trimtab_profile", "x_trimtab_hint"])
async def test_an_unknown_profile_or_hint_is_refused(header: str) -> None:
    with pytest.raises(InvalidRequest):
        await desk().decide(chat(1), {header: "nope"})


@pytest.mark.parametrize(
    ("role", "model", "strict"),
    [("auto", "gpt-4o", False), ("auto", "gemma-3", True), ("user", "gpt-4o", True), ("system", "gemma-3", False)],
)
async def test_roles_are_strict_where_the_template_is(role: Any, model: str, strict: bool) -> None:
    at = Desk(UpstreamSettings(name="up", base_url=UP.base_url, summary_role=role), {"*": SMALL})
    assert (await at.decide(chat(1), model=model)).policy.strict_roles is strict


async def test_a_context_management_that_is_not_ours_decides_nothing() -> None:
    at = desk()
    assert (await at.decide(chat(1), context_management={"edits": []})).policy == (await at.decide(chat(1))).policy
    assert not (await at.decide(chat(1), context_management={"strategy": "x"})).policy.managed
    edit = {"type": "clear_tool_uses_20250919"}
    assert (await at.decide(chat(1), context_management={"edits": [edit]})).policy.managed


@pytest.mark.parametrize(
    ("fields", "asks"),
    [({}, False), ({"stream": True}, True), ({"stream": True, "stream_options": {"include_usage": True}}, False)],
)
async def test_usage_is_included_only_in_a_stream_whose_client_did_not_ask(fields: dict[str, Any], asks: bool) -> None:
    at = desk()
    assert at.decider.include_usage(UP, await at.decide(chat(1), **fields)) is asks


async def test_usage_moves_the_factor_of_the_next_decision() -> None:
    at = desk()
    for _ in range(6):
        made = await at.decide(chat(3))
        at.decider.observe(made, UP, round(made.plan.sent * 1.5))
    assert at.limits.factor("up", "m") > 1.4
    assert (await at.decide(chat(3))).factor > 1.4
    assert at.limits.factor("up", "other") == desk().limits.factor("up", "other") < 1.2


async def test_a_count_of_a_conversation_keeps_its_next_request_whole() -> None:
    """By the estimate the next request is over the budget; by the count of the last one it is not."""
    at, messages = desk(), agent_run(12)
    first = await at.decide(messages)
    assert not first.plan.edits
    at.decider.observe(first, UP, round(first.plan.sent * 0.85))
    longer = [*messages, *cycle(98, 400), *cycle(99, 400)]
    known, unknown = await at.decide(longer), await desk().decide(longer)
    assert unknown.counted(unknown.plan.original) > 7_168
    assert not known.plan.edits
    assert known.factor < 1


OVERFLOWS: list[tuple[dict[str, Any], int, bool]] = [
    # what the upstream reported → the window believed then, whether the factor is higher
    ({"limit": 4_096}, 4_096, False),
    ({"limit": 8_192, "actual": 9_600, "actual_kind": "input", "input_tokens": 9_600}, 8_192, True),
    (
        {"limit": 8_192, "actual": 9_600, "actual_kind": "input", "input_tokens": 9_600, "lower_bound": True},
        8_192,
        False,
    ),
    ({}, 8_192, False),
]


@pytest.mark.parametrize(("reported", "window", "higher"), OVERFLOWS)
async def test_an_overflow_teaches_what_it_reports_and_nothing_more(
    reported: dict[str, Any], window: int, higher: bool
) -> None:
    at = desk()
    made, before = await at.decide(agent_run(12)), at.limits.factor("up", "m")
    learned = at.decider.observe_overflow(made, UP, Overflow("too long", **reported))
    after = at.limits.factor("up", "m")
    assert (learned.limit, learned.factor) == (at.limits.known("up", "m"), after)
    assert at.limits.known("up", "m").context_size == window
    assert after > before if higher else after == before
