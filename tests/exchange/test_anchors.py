"""What one count of a conversation says of its next request, and of no other."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.exchange.requests import WINDOW, shaping
from tests.support.conversations import agent_run, chat, cycle
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.exchange.anchors import DOUBT, UNKNOWN, Anchor, Anchored, Anchors, as_it_is, factor_of, near
from trimtab.limits import DEFAULT, Limit

BIG = agent_run(11)  # about 5,900 of the 7,168 tokens: near the budget, within it


def counted(messages: list[Any], ratio: float, **given: Any) -> Anchors:
    """Anchors that have seen the upstream count `ratio` times the estimate for these messages."""
    anchors, made = Anchors(), shaping(messages, **given)
    anchors.remember("up", made, round(made.plan.sent * ratio))
    return anchors


def test_the_next_request_of_a_conversation_is_known_by_its_beginning() -> None:
    anchors = counted(BIG, 1.2)
    again = anchors.find("up", "m", shaping(BIG).conversation)
    later = anchors.find("up", "m", shaping([*BIG, *cycle(99, 300)]).conversation)
    assert again.anchor is not None
    assert again.anchor.ratio == pytest.approx(1.2, abs=0.001)
    assert again.new == 0
    assert later.anchor == again.anchor
    assert 300 < later.new < 350


OTHERS: list[tuple[str, str, list[Any], dict[str, Any]]] = [
    ("other", "m", BIG, {}),
    ("up", "other", BIG, {}),
    ("up", "m", [*BIG[:-1], {**BIG[-1], "content": "edited"}], {}),
    ("up", "m", BIG[:-2], {}),
    ("up", "m", BIG, {"tools": [{"type": "function", "function": {"name": "read"}}]}),
    ("up", "m", [*BIG, *(m for n in range(40) for m in cycle(n, 1))], {}),
]


@pytest.mark.parametrize(
    ("upstream", "model", "messages", "fields"),
    OTHERS,
    ids=["upstream", "model", "edited", "shorter", "other tools", "too long since"],
)
def test_any_other_request_is_not_known(upstream: str, model: str, messages: list[Any], fields: dict[str, Any]) -> None:
    found = counted(BIG, 1.2).find(upstream, model, shaping(messages, **fields).conversation)
    assert found == UNKNOWN


@pytest.mark.parametrize("tokens", [0, -1, 1, 10**9])
def test_a_count_that_cannot_be_true_is_not_remembered(tokens: int) -> None:
    anchors, made = Anchors(), shaping(BIG)
    anchors.remember("up", made, tokens)
    assert anchors.find("up", "m", made.conversation) == UNKNOWN


def test_a_conversation_far_from_its_budget_needs_none() -> None:
    assert near(shaping(BIG).conversation, 1.0, 7_168)
    assert not near(shaping(chat(2)).conversation, 1.0, 7_168)
    assert near(shaping(chat(2)).conversation, 4.0, 7_168)
    assert counted(chat(2), 1.2).find("up", "m", shaping(chat(2)).conversation) == UNKNOWN


def test_a_count_of_a_shaped_request_keeps_the_factor_and_not_the_tokens() -> None:
    whole = counted(BIG, 1.1).find("up", "m", shaping(BIG).conversation).anchor
    shaped = counted(agent_run(40), 1.1, factor=1.05).find("up", "m", shaping(agent_run(40)).conversation).anchor
    assert whole is not None
    assert shaped is not None
    assert (whole.factor, shaped.tokens) == (None, None)
    assert whole.tokens
    assert shaped.factor == 1.05


GRID = 1.025
FACTORS: list[tuple[Anchor | None, float]] = [
    (None, 1.3),
    (Anchor(1.0, factor=1.05), 1.05),
    (Anchor(1.05, factor=1.05), 1.05),
    (Anchor(0.90, factor=1.05), 1.05),
    (Anchor(0.80, factor=1.05), GRID**-8),  # room is wasted
    (Anchor(1.20, factor=1.05), GRID**8),  # would be refused
    (Anchor(1.0, tokens=6_000), GRID),
    (Anchor(1.5, tokens=6_000), GRID**18),
]


@pytest.mark.parametrize(("anchor", "factor"), FACTORS)
def test_the_factor_begun_with_is_kept_while_the_counts_bear_it(anchor: Anchor | None, factor: float) -> None:
    assert factor_of(Anchored(anchor), 1.3) == pytest.approx(factor)


def test_a_new_factor_is_never_below_what_was_counted() -> None:
    for ratio in (0.5, 0.9, 1.0, 1.01, 1.3, 2.0):
        factor = factor_of(Anchored(Anchor(ratio, tokens=1)), 1.0)
        assert ratio < factor < ratio * 1.05


def over(share: float, **given: Any) -> Any:
    """A conversation whose estimate is `share` of the budget."""
    messages = agent_run(13)
    estimate = shaping(messages, limit=DEFAULT).plan.original
    usable = int(estimate / share)
    limit = Limit(context_size=usable + 1_024, max_output_tokens=1_024, source="configured")
    return shaping(messages, **{"limit": limit, **given})


UNTOUCHED: list[tuple[str, float, Anchored, dict[str, Any], bool]] = [
    ("fits", 0.9, UNKNOWN, {}, True),
    ("a little over, never counted", 1.05, UNKNOWN, {}, True),
    ("clearly over, never counted", DOUBT + 0.05, UNKNOWN, {}, False),
    ("a little over, counted smaller", 1.05, Anchored(Anchor(0.9, tokens=6_000), 200), {}, True),
    ("a little over, counted as large", 1.05, Anchored(Anchor(1.0, tokens=7_500), 500), {}, False),
    ("a little over, being shaped already", 1.05, Anchored(Anchor(0.9, factor=1.0), 0), {}, False),
    ("an operator's own budget", 1.05, UNKNOWN, {"cap": 5_000}, False),
    ("a guessed limit", 1.05, UNKNOWN, {"trusted": False}, False),
    ("a plain window", 1.05, UNKNOWN, {"rules": ShapingSettings(max_messages=4)}, False),
    ("asked for clearing itself", 1.05, UNKNOWN, {"policy": Policy(managed=True)}, False),
]


@pytest.mark.parametrize(("_", "share", "found", "given", "untouched"), UNTOUCHED, ids=[row[0] for row in UNTOUCHED])
def test_what_fits_or_may_well_fit_is_sent_as_it_is(
    _: str, share: float, found: Anchored, given: dict[str, Any], untouched: bool
) -> None:
    trusted = given.pop("trusted", True) if "trusted" in given else True
    made = over(share, **given)
    if not trusted:
        made = msgspec.structs.replace(made, limit=msgspec.structs.replace(made.limit, trusted=False))
    decided = as_it_is(made, found)
    assert (decided.plan.edits == ()) is untouched
    if not untouched:
        assert decided is made


def test_pins_are_still_stripped_of_what_is_sent_as_it_is() -> None:
    messages = agent_run(13)
    messages[1]["pinned"] = True
    estimate = shaping(messages, limit=DEFAULT).plan.original
    usable = int(estimate / 1.04)
    limit = Limit(context_size=usable + 1_024, max_output_tokens=1_024, source="configured")
    made = shaping(messages, limit=limit)
    decided = as_it_is(made, UNKNOWN)
    assert made.plan.edits
    assert decided.plan.edits == ()
    assert decided.plan.unpin == (1,)
    assert WINDOW.trusted


def test_the_summary_that_was_wanted_is_made_beside_a_request_sent_as_it_is() -> None:
    messages = chat(12)
    estimate = shaping(messages, limit=DEFAULT).plan.original
    limit = Limit(context_size=int(estimate / 1.04) + 1_024, max_output_tokens=1_024, source="configured")
    made = shaping(messages, limit=limit, policy=Policy(compaction=True, summary_tokens=300))
    decided = as_it_is(made, UNKNOWN)
    assert made.plan.summary
    assert (decided.plan.summary, decided.plan.ahead) == ((), made.plan.summary)
