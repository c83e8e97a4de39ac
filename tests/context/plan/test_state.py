"""The state of a walk: what it counts, what it pins, what goes with what."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.context.histories import histories
from tests.context.plans import policy, tokens, walked
from tests.support.messages import assistant, calls, msg, prose, result, system, tool_loop, user
from trimtab.context.apply.rewrite import message
from trimtab.context.plan.pins import pinned_units
from trimtab.context.plan.state import NOTE_TOKENS, State
from trimtab.context.read.structure import structure
from trimtab.context.read.views import view
from trimtab.context.texts import NOTE

LARGE = 10**6


def test_the_note_costs_what_its_message_costs() -> None:
    assert view(message("system", NOTE)).tokens == NOTE_TOKENS


def test_walking_counts_everything_and_tells_system_messages_apart() -> None:
    raws = [system(), user(), calls("a"), result("a"), system()]
    state = walked(raws, LARGE)
    assert state.size == tokens(raws)
    assert state.fixed == tokens(raws[:1])
    assert state.reminders == [4]
    assert (state.message_count, state.clearing.results, state.question, state.units_walked) == (3, [3], 1, 4)


PINNED: dict[str, tuple[list[bytes], list[int]]] = {
    "the task and the question": ([user(), assistant(), user(), assistant(), user()], [0, 4]),
    "one question": ([user(), calls("a"), result("a")], [0]),
    "no user at all": ([system(), assistant(), calls("a")], []),
    "the beginning of an answer": ([user(), assistant(), user(), assistant()], [0, 2, 3]),
    "sent while tools ran": ([user(), assistant(), user(), *tool_loop(1), user("also"), *tool_loop(1)], [0, 2, 5]),
    "two in a row": ([user(), assistant(), user(), user()], [0, 2, 3]),
    "no longer once the run has ended": ([user(), *tool_loop(1), user("also"), assistant(), user()], [0, 5]),
    "marked by the client": ([user(), assistant(pinned=True), assistant(), user()], [0, 1, 3]),
    "a marked result with its call": ([user(), calls("a"), result("a", pinned=True), user()], [0, 1, 3]),
    "a marked result that is late": ([user(), calls("a"), user(), result("a", pinned=True), user()], [0, 1, 2, 3, 4]),
}


@pytest.mark.parametrize(("raws", "expected"), PINNED.values(), ids=PINNED)
def test_pins(raws: list[bytes], expected: list[int]) -> None:
    state = walked(raws, LARGE)
    assert sorted(state.structure.units[u].start for u in pinned_units(state)) == expected


IMAGE = {"type": "image_url", "image_url": {"url": "https://example.invalid/a.png"}}  # 765 tokens


def screenshots(cycles: int) -> list[bytes]:
    """Tool cycles, each followed by the picture of its result in a user message, as many agents send them."""
    loop = tool_loop(cycles, 40)
    return [m for k in range(cycles) for m in (*loop[2 * k : 2 * k + 2], user([IMAGE]))]


def pinned_starts(raws: list[bytes], budget: int, **shaping: object) -> list[int]:
    state = walked(raws, budget, policy(**shaping))
    return sorted(state.structure.units[u].start for u in pinned_units(state))


def test_the_newest_reminder_stays_with_those_right_before_it() -> None:
    raws = [system(), user(), system("Opening."), assistant(), system("a"), user(), msg("developer", "b"), system("c")]
    assert pinned_starts(raws, LARGE) == [1, 5, 6, 7]
    assert pinned_starts([*raws, *tool_loop(1), msg("system", 5), system("d")], LARGE) == [1, 5, 11]


def test_over_their_share_injected_messages_lose_their_pin_first_then_marks_then_the_question_of_the_turn() -> None:
    raws = [user("Task."), assistant("Rule.", pinned=True), user("Now this."), *screenshots(4)]
    assert pinned_starts(raws, LARGE) == [0, 1, 2, 5, 8, 11, 14]
    assert pinned_starts(raws, 5_000) == [0, 1, 2, 8, 11, 14]
    assert pinned_starts(raws, 1_800) == [0, 1, 2, 14]
    assert pinned_starts(raws, 1_574) == [0, 2, 14]
    assert pinned_starts(raws, 1_000) == [0, 14]


def test_the_task_is_every_user_message_before_the_first_answer() -> None:
    raws = [system(), user("Environment."), msg("developer"), user("Task."), user("Reminder."), *screenshots(4)]
    assert pinned_starts(raws, 3_500) == [1, 3, 4, 13, 16]
    assert pinned_starts([assistant("Hello."), user("Task."), assistant(), user("And?")], LARGE) == [1, 3]


def test_the_task_keeps_its_pin_beside_a_question_that_takes_more_than_the_share() -> None:
    raws = [user(prose(2_000)), assistant("x", pinned=True), user(prose(9_000))]
    budget = tokens(raws)
    assert pinned_starts(raws, budget) == [2]
    assert pinned_starts(raws, budget + tokens(raws[:1])) == [0, 2]
    of_two = [user(prose(1_000)), *raws]
    assert pinned_starts(of_two, tokens(of_two), pin_share=0.8) == [1, 3], "the older one goes first"


def test_dropping_a_unit_takes_late_results_with_it() -> None:
    state = walked([user(), calls("a", "b"), result("a"), user(), assistant(), result("b"), user()], LARGE)
    state.drop(1, "dropped", "test")
    assert [i for i in range(7) if state.gone[i]] == [1, 2, 5]


def test_a_late_result_of_a_call_that_has_gone_is_not_taken_in() -> None:
    raws = [user(), calls("a"), assistant(prose(900)), result("a"), user()]
    memo_state = walked(raws[:3], LARGE)
    memo_state = State(structure(raws, [view(r) for r in raws]), 0, memo_state.policy, LARGE, memo_state.memo)
    memo_state.advance(3)
    memo_state.drop(1, "summarized", "test")
    memo_state.advance(5)
    assert memo_state.gone[3]
    assert memo_state.edits[3].stage == "summarized"
    assert memo_state.clearing.results == []
    assert memo_state.size == tokens([raws[0], raws[2], raws[4]]) + memo_state.compaction.gap_tokens


def test_the_note_stands_only_where_more_has_gone_than_it_takes() -> None:
    state = walked([user(), assistant("b"), assistant(prose(900)), user()], LARGE)
    state.drop(1, "dropped", "test")
    assert state.compaction.gap_tokens == 0
    state.drop(2, "dropped", "test")
    assert state.compaction.gap_tokens == NOTE_TOKENS
    state.close_gap()
    assert state.size == tokens([user(), user()])


def test_the_mark_is_measured_from_what_stays() -> None:
    raws = [system(prose(4_000)), user("Begin."), *tool_loop(3)]
    budget = tokens(raws)
    stays = tokens(raws[:2])
    assert walked(raws, budget, policy(target=0.5)).target == stays + (budget - stays) // 2
    assert walked(raws, budget, policy(target=0)).target == stays
    assert walked(raws, budget, policy(target=1)).target == budget


@settings(max_examples=60, deadline=None)
@given(histories)
def test_the_size_is_always_the_sum_of_what_is_sent(raws: list[bytes]) -> None:
    state = walked(raws, LARGE)
    for u in range(0, len(state.structure.units), 2):
        if state.structure.units[u].role not in ("system", "developer"):
            state.drop(u, "dropped", "test")
        assert state.size == sum(state.sent) + state.compaction.gap_tokens
        assert state.remaining() == [
            i
            for i in range(len(raws))
            if not state.gone[i] and state.structure.views[i].role not in ("system", "developer")
        ]
