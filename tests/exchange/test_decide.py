"""From a request to a decision: alone, and with what was learned of the model and the conversation."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.exchange.requests import WINDOW, incoming, request, shaping
from tests.support.conversations import agent_run, chat, cycle, prose
from tests.support.scripted import ScriptedUpstream, json_reply
from trimtab.calibration.counts import NO_COUNT, Count, LastCount
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.errors import InvalidRequest
from trimtab.exchange.access import credential
from trimtab.exchange.calls import Calls
from trimtab.exchange.decide import DOUBT, REFUSE_AT, Decider, Shaping, irreducible, send_untouched_if_it_may_fit
from trimtab.exchange.policies import PROFILES, Policies
from trimtab.limits import DEFAULT, Limit, Limits, LimitsSettings, ModelSettings
from trimtab.overflow.classify import Overflow
from trimtab.upstream.client import Client
from trimtab.upstream.settings import UpstreamSettings

pytestmark = pytest.mark.anyio


def test_a_cap_lowers_the_budget_and_never_raises_it() -> None:
    assert shaping(chat(1), cap=2_000).budget.usable == 2_000
    assert shaping(chat(1), cap=50_000).budget.usable == 7_168
    assert shaping(chat(1), cap=0).budget.usable == 1


def test_sizes_are_in_the_upstreams_own_tokens() -> None:
    plain, dear = shaping(agent_run(30)), shaping(agent_run(30), factor=1.5)
    assert dear.plan.budget == int(7_168 / 1.5)
    assert dear.counted(dear.plan.sent) <= 7_168
    assert dear.counted(100) == 150
    assert plain.plan.budget == 7_168


def question(tokens: int) -> list[dict[str, Any]]:
    return [{"role": "system", "content": prose(200)}, {"role": "user", "content": prose(tokens)}]


@pytest.mark.parametrize(
    ("tokens", "limit", "refused"),
    [
        (2_000, WINDOW, False),
        (20_000, WINDOW, True),
        (int(7_168 * (REFUSE_AT - 0.05)), WINDOW, False),  # within the estimate's error the upstream decides
        (900_000, DEFAULT, False),  # the limit is a guess
    ],
)
def test_only_what_surely_cannot_fit_is_refused_unseen(tokens: int, limit: Limit, refused: bool) -> None:
    assert (irreducible(shaping(question(tokens), limit=limit)) is not None) is refused


def test_a_budget_that_the_request_chose_shapes_and_never_refuses_what_the_model_takes() -> None:
    small = shaping([*chat(20), *question(2_000)[1:]], cap=500)
    assert (small.budget.usable, small.budget.most) == (500, 7_168)
    assert not small.plan.fits
    assert small.plan.breakdown is not None
    assert small.plan.sent == small.plan.breakdown.total
    assert irreducible(small) is None
    assert irreducible(shaping(question(20_000), cap=500)) is not None


def test_a_budget_of_the_operator_refuses_because_nobody_else_holds_it() -> None:
    limit = msgspec.structs.replace(WINDOW, budget=500)
    assert irreducible(shaping(question(2_000), limit=limit)) is not None


def test_a_long_history_is_never_a_reason_to_refuse() -> None:
    assert irreducible(shaping(chat(200))) is None


# -- sent as received because it may fit ------------------------------------------------------------------------


def over(share: float, **given: Any) -> Any:
    """A conversation whose estimate is `share` of the budget."""
    messages = agent_run(13)
    estimate = shaping(messages, limit=DEFAULT).plan.original
    usable = int(estimate / share)
    limit = Limit(context_size=usable + 1_024, max_output_tokens=1_024, source="configured")
    return shaping(messages, **{"limit": limit, **given})


UNTOUCHED: list[tuple[str, float, LastCount, dict[str, Any], bool]] = [
    ("fits", 0.9, NO_COUNT, {}, True),
    ("a little over, never counted", 1.05, NO_COUNT, {}, True),
    ("clearly over, never counted", DOUBT + 0.05, NO_COUNT, {}, False),
    ("a little over, counted smaller", 1.05, LastCount(Count(0.9, tokens=6_000), 200), {}, True),
    ("a little over, counted as large", 1.05, LastCount(Count(1.0, tokens=7_500), 500), {}, False),
    ("a little over, being shaped already", 1.05, LastCount(Count(0.9, factor=1.0), 0), {}, False),
    ("an operator's own budget", 1.05, NO_COUNT, {"cap": 5_000}, False),
    ("a guessed limit", 1.05, NO_COUNT, {"trusted": False}, False),
    ("a plain window", 1.05, NO_COUNT, {"rules": ShapingSettings(max_messages=4)}, False),
    ("asked for clearing itself", 1.05, NO_COUNT, {"policy": Policy(managed=True)}, False),
]


@pytest.mark.parametrize(("_", "share", "last", "given", "untouched"), UNTOUCHED, ids=[row[0] for row in UNTOUCHED])
def test_what_fits_or_may_well_fit_is_sent_send_untouched_if_it_may_fit(
    _: str, share: float, last: LastCount, given: dict[str, Any], untouched: bool
) -> None:
    trusted = given.pop("trusted", True) if "trusted" in given else True
    made = over(share, **given)
    if not trusted:
        made = msgspec.structs.replace(made, limit=msgspec.structs.replace(made.limit, trusted=False))
    decided = send_untouched_if_it_may_fit(made, last)
    assert (decided.plan.edits == ()) is untouched
    if not untouched:
        assert decided is made


def test_pins_are_still_stripped_of_what_is_sent_send_untouched_if_it_may_fit() -> None:
    messages = agent_run(13)
    messages[1]["pinned"] = True
    estimate = shaping(messages, limit=DEFAULT).plan.original
    usable = int(estimate / 1.04)
    limit = Limit(context_size=usable + 1_024, max_output_tokens=1_024, source="configured")
    made = shaping(messages, limit=limit)
    decided = send_untouched_if_it_may_fit(made, NO_COUNT)
    assert made.plan.edits
    assert decided.plan.edits == ()
    assert decided.plan.unpin == (1,)
    assert WINDOW.trusted


def test_the_summary_that_was_wanted_is_made_beside_a_request_sent_send_untouched_if_it_may_fit() -> None:
    messages = chat(12)
    estimate = shaping(messages, limit=DEFAULT).plan.original
    limit = Limit(context_size=int(estimate / 1.04) + 1_024, max_output_tokens=1_024, source="configured")
    made = shaping(messages, limit=limit, policy=Policy(compaction=True, summary_tokens=300))
    decided = send_untouched_if_it_may_fit(made, NO_COUNT)
    assert made.plan.summary
    assert (decided.plan.summary, decided.plan.ahead) == ((), made.plan.summary)


# -- with what is known of a model and a conversation -------------------------------------------------------------

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
        chosen = self.decider.choose(reading.request, self.upstream, came)
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
