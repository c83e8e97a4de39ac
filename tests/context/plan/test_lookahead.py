"""The summary made ahead is the one the next overflow asks for, and none is made where none will be asked for."""

from __future__ import annotations

import pytest

from tests.context.plans import planned, tokens
from tests.support.messages import assistant, prose, system, tool_loop, user
from trimtab.context.policy import Policy, ShapingSettings

COMPACT = Policy(ShapingSettings(), compaction=True, summary_tokens=100)


def talk(turns: int, chars: int = 600) -> list[bytes]:
    """Nothing in it can be cleared."""
    raws = [system()]
    for k in range(turns):
        raws += [user(f"Question {k}? {prose(chars)}"), assistant(f"Answer {k}. {prose(chars)}")]
    return [*raws, user("And?")]


@pytest.mark.parametrize("summary_tokens", [50, 400])
@pytest.mark.parametrize("target", [0.3, 0.5, 0.7])
def test_what_is_made_ahead_is_what_the_overflow_asks_for(target: float, summary_tokens: int) -> None:
    policy = Policy(ShapingSettings(target=target), compaction=True, summary_tokens=summary_tokens)
    budget = tokens(talk(20))
    plans = [planned(talk(turns), policy, budget) for turns in range(12, 24)]
    overflow = next(i for i, found in enumerate(plans) if found.summary)
    ahead = {found.ahead for found in plans[:overflow] if found.ahead}
    assert ahead == {plans[overflow].summary}


def test_nothing_is_made_ahead_where_clearing_will_do() -> None:
    raws = [system(), user("Begin."), *tool_loop(12, 900)]
    assert planned(raws, COMPACT, int(tokens(raws) / 0.9)).ahead == ()


def test_a_large_result_that_is_only_the_newest_will_be_cleared() -> None:
    raws = [system(), user("Begin."), *tool_loop(4, 300), *tool_loop(1, 9_000)]
    assert planned(raws, COMPACT, int(tokens(raws) / 0.9)).ahead == ()


def test_a_slow_conversation_is_left_alone_until_the_overflow_is_near() -> None:
    raws = talk(60, 100)
    assert planned(raws, COMPACT, int(tokens(raws) / 0.78)).ahead == ()
    assert planned(raws, COMPACT, int(tokens(raws) / 0.95)).ahead


def test_the_plan_is_the_same_whether_or_not_it_looks_ahead() -> None:
    raws = talk(20)
    late = Policy(ShapingSettings(), compaction=True, summary_tokens=100, precompact_share=1.0)
    for share in (0.8, 0.95, 1.3, 2.0):
        near, far = (planned(raws, policy, int(tokens(raws) / share)) for policy in (COMPACT, late))
        assert (near.edits, near.gap, near.summary, near.sent) == (far.edits, far.gap, far.summary, far.sent)


def test_a_budget_that_calibration_moves_asks_for_the_same_summaries() -> None:
    """Replicas learn at different times, and each summary is worth nothing to one that wants another."""
    plans = {}
    for factor in (0.9, 1.0, 1.1):
        budget = int(7_000 / factor)
        wanted = [planned(talk(turns), COMPACT, budget).summary for turns in range(20, 60)]
        plans[factor] = {summary for summary in wanted if summary}
    assert plans[1.0]
    assert plans[0.9] <= plans[1.0] <= plans[1.1]
