"""Truncating and squeezing: which messages, how far, and which never."""

from __future__ import annotations

import json

import pytest

from tests.context.plans import planned, policy, staged, tokens, walked
from tests.support.messages import assistant, calls, prose, result, system, tool_loop, user
from trimtab.context.apply.rewrite import rewrite
from trimtab.context.plan.clear import clear
from trimtab.context.plan.shorten import squeeze, truncate
from trimtab.context.policy import Policy
from trimtab.context.read.views import view

LARGE = 10**6


LOOP = [user("Begin."), *tool_loop(12, 1_200)]  # results at 2, 4, … 24


# -- truncating --------------------------------------------------------------------------------------------------


def test_oversized_messages_are_cut_only_when_over() -> None:
    raws = [user("Begin."), assistant(prose(900)), user(prose(900)), user("And?")]
    fits, over = (walked(raws, budget, policy(max_message_chars=400)) for budget in (LARGE, tokens(raws) - 1))
    truncate(fits)
    truncate(over)
    assert not fits.edits
    assert sorted(over.edits) == [1, 2]
    assert all(over.edits[i].amount == 400 for i in (1, 2))


def test_with_always_they_are_cut_in_every_request() -> None:
    raws = [system(prose(900)), assistant(prose(900)), user(prose(900))]
    found = planned(raws, policy(max_message_chars=400, truncate="always"), LARGE)
    assert staged(found) == {"truncated": [1]}
    assert found.fits


def test_a_question_is_cut_once_it_is_no_longer_the_question() -> None:
    raws = [user(prose(900)), assistant(), user("And?")]
    rules = policy(max_message_chars=400, truncate="always")
    assert staged(planned(raws[:1], rules, LARGE)) == {}
    assert staged(planned(raws, rules, LARGE)) == {"truncated": [0]}


def test_nothing_is_cut_to_something_larger() -> None:
    raws = [assistant("ab"), user()]
    state = walked(raws, LARGE, policy(max_message_chars=1, truncate="always"))
    truncate(state)
    assert not state.edits


# -- squeezing ---------------------------------------------------------------------------------------------------


def test_results_that_must_stay_share_what_is_left() -> None:
    raws = [user("Begin."), calls("a", "b", "c"), result("a", "small"), *(result(i, prose(9_000)) for i in "bc")]
    budget = tokens(raws) // 2
    found = planned(raws, Policy(), budget)
    assert staged(found) == {"squeezed": [3, 4]}
    assert found.fits
    first, second = (e.tokens_after for e in found.edits)
    assert abs(first - second) < 20
    assert found.sent > budget // 2


def test_the_size_noted_is_the_size_made_however_many_tries_it_took() -> None:
    text = json.dumps({"content": "\\n\\t" * 400, "n": [1, 2.5]})
    for budget in range(60, 700, 20):
        raws = [user("Begin."), calls("a", "b", "c", arguments=text), *(result(i) for i in "abc"), user("And?")]
        state = walked(raws, budget)
        squeeze(state)
        for i, edit in state.edits.items():
            assert view(rewrite(raws[i], edit.stage, edit.amount)).tokens == edit.tokens_after


def test_other_messages_only_when_the_results_are_not_enough() -> None:
    raws = [user("Begin."), assistant(prose(9_000)), *tool_loop(1, 100), user("And?")]
    state = walked(raws, tokens(raws) - 1)
    squeeze(state)
    assert sorted(state.edits) == [1]
    assert state.size <= state.budget


def test_the_question_and_system_messages_are_never_squeezed_and_pins_last() -> None:
    raws = [system(prose(900)), user(prose(3_000)), assistant(prose(3_000)), user(prose(3_000))]
    state = walked(raws, tokens(raws) - 300, policy(pin_share=1))
    squeeze(state)
    assert sorted(state.edits) == [2]
    state = walked(raws, tokens(raws) - 900, policy(pin_share=1))
    squeeze(state)
    assert sorted(state.edits) == [1, 2]


def test_a_cleared_result_does_not_come_back_squeezed() -> None:
    state = walked(LOOP, tokens(LOOP) // 3, policy(target=0, keep_share=0, clear_batch=1))
    clear(state)
    before = {i: e for i, e in state.edits.items() if e.stage == "cleared"}
    squeeze(state)
    assert before.items() <= state.edits.items()


def test_large_arguments_are_squeezed_and_stay_json() -> None:
    raws = [
        user("write"),
        calls("w", arguments='{"content":"' + prose(40_000) + '"}'),
        result("w"),
        assistant(),
        user(),
    ]
    state = walked(raws, 2_000)
    squeeze(state)
    assert state.edits[1].stage == "squeezed"
    assert not state.over


@pytest.mark.parametrize("raw", [b"null", b'"x"', b'{"role": "user", "content": 5}', b'{"role": "critic"}'])
def test_what_has_no_text_is_left_as_it_is(raw: bytes) -> None:
    state = walked([raw, user()], 1)
    squeeze(state)
    assert not state.edits
