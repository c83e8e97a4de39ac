"""From a request to a decision, alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.exchange.requests import WINDOW, shaping
from tests.support.conversations import agent_run, chat, prose
from trimtab.calibration.counts import NO_COUNT, Count, LastCount
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.exchange.decide import DOUBT, REFUSE_AT, irreducible, send_untouched_if_it_may_fit
from trimtab.limits import DEFAULT, Limit

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
    assert dear.plan.sent < plain.plan.sent


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
