"""Which messages go without a summary, in which order, and what stays in their place."""

from __future__ import annotations

import pytest

from tests.context.plans import planned, policy, staged, tokens, walked
from tests.support.messages import assistant, prose, system, tool_loop, user
from trimtab.context.plan.drop import drop, drop_all_but_question
from trimtab.context.plan.state import NOTE_TOKENS
from trimtab.context.plan.summarize import summarize
from trimtab.context.policy import Policy, ShapingSettings

LARGE = 10**6
COMPACT = Policy(ShapingSettings(segment_share=0.2, target=0.5), compaction=True, summary_tokens=60)


def turn(k: int, chars: int = 400) -> list[bytes]:
    return [user(f"Question {k}? {prose(chars)}"), assistant(f"Answer {k}. {prose(chars)}")]


CHAT = [system(), *(m for k in range(6) for m in turn(k)), user("And?")]  # questions at 1, 3, … 13


# -- dropping ----------------------------------------------------------------------------------------------------


def test_whole_turns_go_oldest_first_and_the_task_stays() -> None:
    state = walked(CHAT, tokens(CHAT) - 1, policy(target=0.7))
    drop(state)
    assert sorted(state.edits) == [2, 3, 4, 5, 6][: len(state.edits)]
    assert state.size <= state.target
    assert len(state.edits) % 2 == 1  # the task's answer, and whole turns
    assert state.compaction.gap_tokens == NOTE_TOKENS


def test_no_further_than_needed() -> None:
    state = walked(CHAT, tokens(CHAT) - 1, policy(target=1))
    drop(state)
    assert sorted(state.edits) in ([2], [2, 3, 4])


def test_the_newest_messages_are_left_alone() -> None:
    state = walked(CHAT, 10, policy(keep_recent=4))
    drop(state)
    assert max(state.edits) == 8, "9 is the question of the turn that 10 ends"


def test_inside_one_long_turn_whole_cycles_go() -> None:
    raws = [user("Begin."), *tool_loop(12, 900)]
    state = walked(raws, tokens(raws) - 1, policy(target=0.8))
    drop(state)
    assert sorted(state.edits) == list(range(1, 1 + len(state.edits)))
    assert len(state.edits) % 2 == 0
    assert 0.5 * state.budget < state.size <= state.target


def test_a_window_counts_messages_from_the_frontier_on() -> None:
    found = planned(CHAT, policy(max_messages=6, target=1), LARGE)
    assert staged(found) == {"dropped": [2, 3, 4, 5, 6, 7, 8]}  # kept at its lowest: 9 to 12, when 13 was to come


def test_a_window_smaller_than_keep_recent_holds() -> None:
    found = planned(CHAT, policy(max_messages=1, keep_recent=8, pin_share=0), LARGE)
    kept = [i for i in range(len(CHAT)) if i not in staged(found)["dropped"]]
    assert kept == [0, 13]


# -- the last resort ---------------------------------------------------------------------------------------------


def test_everything_but_system_messages_and_the_question_goes() -> None:
    raws = [system(), *turn(1), system("Mind the gap."), user("And?"), *tool_loop(3, 900)]
    state = walked(raws, tokens([raws[0], raws[3], raws[4]]) + NOTE_TOKENS)
    drop_all_but_question(state)
    assert [i for i in range(len(raws)) if not state.gone[i]] == [0, 3, 4]
    assert state.compaction.gap_tokens == NOTE_TOKENS


def test_at_the_very_end_the_note_goes_too() -> None:
    raws = [system(), *turn(1), user("And?")]
    found = planned(raws, Policy(), tokens([raws[0], raws[3]]))
    assert found.fits
    assert found.gap is None
    assert staged(found) == {"dropped": [1, 2]}


def test_nothing_to_come_is_touched() -> None:
    """A question too large at its time leaves no trace on what is asked after it."""
    raws = [user(prose(9_000)), assistant("I cannot."), user("Shorter, then.")]
    found = planned(raws, Policy(), 400)
    assert found.fits
    assert staged(found) == {"squeezed": [0]}
    assert staged(planned(raws[:1], Policy(), 400)) == {}


@pytest.mark.parametrize("stage", [summarize, drop, drop_all_but_question])
def test_what_fits_is_left_alone(stage: object) -> None:
    state = walked(CHAT, LARGE, COMPACT)
    stage(state)  # type: ignore[operator]
    assert not state.edits
    assert state.size == tokens(CHAT)
