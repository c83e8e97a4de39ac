"""A request for a JSON object keeps the word "json" among what is sent."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.context.histories import conversations
from tests.context.plans import planned, policy, tokens
from tests.support.messages import assistant, msg, prose, result, system, tool_loop, user
from trimtab.context.apply.apply import apply
from trimtab.context.plan.plan import plan
from trimtab.context.policy import Policy
from trimtab.context.read.history import history
from trimtab.context.read.memo import Memo
from trimtab.context.texts import JSON_WORD

NEEDED = Policy(needs_json_word=True)
TURNS = [m for k in range(12) for m in (user(f"{k} {prose(900)}"), assistant(prose(900)))]


def sent(raws: list[bytes], rules: Policy, budget: int) -> list[Any]:
    found = planned(raws, rules, budget)
    return [json.loads(raw) for raw in apply(raws, found)]


def test_the_system_message_says_it_when_the_last_that_did_is_removed() -> None:
    raws = [system("Be brief."), user("Hello."), assistant(), user("Answer as JSON."), *TURNS, user("Go on.")]
    out = sent(raws, NEEDED, 3_000)
    assert out[0] == {"role": "system", "content": f"Be brief.\n\n{JSON_WORD}"}
    assert JSON_WORD not in str(sent(raws, Policy(), 3_000))


def test_without_a_system_message_it_is_one_of_its_own() -> None:
    raws = [user("Hello."), assistant(), user("Answer as JSON."), *TURNS, user("Go on.")]
    out = sent(raws, NEEDED, 3_000)
    assert out[0] == {"role": "system", "content": JSON_WORD}
    assert out[1]["content"] == "Hello."


@pytest.mark.parametrize("task", ["Answer as JSON.", "Reply with a Json object."])
def test_nothing_is_added_while_a_message_says_it(task: str) -> None:
    raws = [system("Be brief."), user(task), assistant(), *TURNS, user("Go on.")]
    assert JSON_WORD not in str(sent(raws, NEEDED, 3_000))


def test_nothing_is_added_where_no_message_said_it() -> None:
    assert JSON_WORD not in str(sent([system("Be brief."), user(), *TURNS, user("Go on.")], NEEDED, 3_000))


def test_a_word_that_only_a_cleared_result_had_is_said_too() -> None:
    raws = [user("Go."), *tool_loop(1), result("c0", "json " + prose(4_000)), *tool_loop(6, 2_000, 1)]
    assert JSON_WORD in str(sent(raws, NEEDED, 2_500))


def test_what_comes_later_changes_nothing_until_the_frontier_moves() -> None:
    raws = [system("Be brief."), user("Hello."), assistant(), user("Answer as JSON."), *TURNS, user("Go on.")]
    budget = 3_000
    first = sent(raws, NEEDED, budget)
    more = sent([*raws, assistant("{}"), user("And more json.")], NEEDED, budget)
    assert more[: len(first)] == first


@given(conversations(), st.floats(0.05, 1.0), st.booleans())
def test_the_size_in_the_plan_is_the_size_of_what_is_sent(raws: list[bytes], share: float, strict: bool) -> None:
    raws = [*raws[:3], msg("user", "as JSON"), *raws[3:], user("Go on.")]
    rules = msgspec.structs.replace(policy(), needs_json_word=True, strict_roles=strict)
    budget = max(1, int(tokens(raws) * share))
    memo = Memo()
    found = plan(history(raws, (), memo), rules, budget, memo)
    out = apply(raws, found)
    assert tokens(out) <= found.sent
    assert found.fits == (found.sent <= budget)
    assert any(b"json" in bytes(raw).lower() for raw in out)
