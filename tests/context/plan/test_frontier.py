"""Which messages go, in which order, and what stays in their place."""

from __future__ import annotations

import math

import pytest

from tests.context.conversations import assistant, calls, prose, result, system, tool_loop, user
from tests.context.shaped import planned, policy, staged, tokens, walked
from trimtab.context.edits import Segment
from trimtab.context.plan.frontier import drop, next_segment, shed, summarize
from trimtab.context.plan.replay import NOTE_TOKENS
from trimtab.context.policy import Policy, ShapingSettings

LARGE = 10**6


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
    assert state.gap_tokens == NOTE_TOKENS


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


def test_the_question_of_a_turn_stays_while_a_later_part_of_its_turn_does() -> None:
    raws = [user("Task."), assistant(), user("Work."), *tool_loop(12, 900), user("And?")]
    state = walked(raws, tokens(raws) - 1, policy(target=0.8, pin_share=0.01))
    drop(state)
    assert not state.gone[2]
    assert state.gone[3]
    assert not state.gone[26]


def test_pinned_messages_inside_what_goes_stay_in_order() -> None:
    raws = [user("Task."), *turn(1), assistant("Rule.", pinned=True), *turn(2), *turn(3), user("And?")]
    found = planned(raws, policy(keep_recent=1, target=0.2), tokens(raws) // 2)
    gone = staged(found)["dropped"]
    assert 0 not in gone
    assert 3 not in gone
    assert 1 not in gone, "the question of the pinned answer's turn"
    assert {2, 4, 5} <= set(gone)


def test_what_is_no_longer_pinned_goes_before_what_is_newer() -> None:
    """A remark made while tools ran stays until its run has ended."""
    loop = [user("Task."), *tool_loop(6, 900), user("Also this."), *tool_loop(6, 900, 6)]
    budget = tokens(loop) * 2 // 3
    held = policy(keep_recent=2, exclude_tools=("read_file",), target=0.5)
    assert 13 not in staged(planned(loop, held, budget))["dropped"]
    later = [*loop, assistant(), user("Next."), *tool_loop(6, 900, 12)]
    assert 13 in staged(planned(later, held, budget))["dropped"]


def test_of_a_turn_with_a_pinned_answer_the_question_goes_last() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.invalid/a.png"}}
    raws = [user([image], pinned=True), assistant("Rule.", pinned=True), user("And?")]
    found = planned(raws, policy(keep_recent=1, pin_share=0.75, max_messages=1), tokens(raws) // 3)
    assert staged(found)["dropped"] == [0, 1]


def test_pinned_calls_keep_their_late_results() -> None:
    raws = [user("Task."), calls("a", pinned=True), user("Wait."), assistant(prose(900)), result("a"), *turn(1), user()]
    found = planned(raws, policy(keep_recent=1, target=0), tokens(raws) - 1)
    gone = staged(found)["dropped"]
    assert 3 in gone
    assert not {1, 4} & set(gone)


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
    shed(state)
    assert [i for i in range(len(raws)) if not state.gone[i]] == [0, 3, 4]
    assert state.gap_tokens == NOTE_TOKENS


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


# -- summaries ---------------------------------------------------------------------------------------------------

COMPACT = Policy(ShapingSettings(segment_share=0.2, target=0.5), compaction=True, summary_tokens=60)


def test_segments_do_not_depend_on_when_the_overflow_happens() -> None:
    raws = [system(), user("Begin."), *tool_loop(20, 600)]
    budget = tokens(raws) // 2
    early, late = (walked(raws[:n], budget, COMPACT) for n in (22, len(raws)))
    for state in (early, late):
        while next_segment(state, state.end) is not None:
            state.summarized += 1
    assert early.segments == late.segments[: len(early.segments)]
    assert early.segments[0].start == 1
    assert all(a.stop == b.start for a, b in zip(late.segments, late.segments[1:], strict=False))
    grid = 2 ** round(math.log2(budget * 0.2))
    assert all(tokens(raws[s.start : s.stop]) >= grid > tokens(raws[s.start : s.stop - 2]) for s in late.segments)


def test_segments_stay_where_they_are_when_the_budget_moves_a_little() -> None:
    """Calibration moves the budget by steps of some percent."""
    raws = [system(), user("Begin."), *tool_loop(20, 600)]
    found = []
    for budget in (5000, 5300, 5700):
        state = walked(raws, budget, COMPACT)
        while next_segment(state, state.end) is not None:
            state.summarized += 1
        found.append(state.segments)
    assert found[0] == found[1] == found[2]


def test_one_summary_stands_for_all_segments() -> None:
    raws = [system(), user("Begin."), *tool_loop(20, 600)]
    state = walked(raws, tokens(raws) * 3 // 4, COMPACT)
    summarize(state)
    assert state.standing == state.summarized > 0
    stop = state.segments[state.standing - 1].stop
    assert sorted(state.edits) == list(range(2, stop))
    assert {e.stage for e in state.edits.values()} == {"summarized"}
    assert state.gap_tokens == 64


def test_a_summary_is_not_made_for_less_than_it_takes() -> None:
    raws = [system(), user("Begin."), *tool_loop(8, 100), user("And?")]
    costly = Policy(ShapingSettings(segment_share=0.1), compaction=True, summary_tokens=5_000)
    state = walked(raws, tokens(raws) - 1, costly)
    summarize(state)
    assert not state.edits
    assert (state.standing, state.gap_tokens) == (0, 0)
    found = planned(raws, costly, tokens(raws) - 1)
    assert found.summary == ()
    assert found.sent < found.original


def test_small_segments_are_summarised_together_once_they_take_more_than_the_summary() -> None:
    raws = [system(), *(m for k in range(30) for m in turn(k, 60)), user("And?")]
    held = Policy(ShapingSettings(segment_share=0.02, target=0.3), compaction=True, summary_tokens=200)
    found = planned(raws, held, tokens(raws) - 1)
    assert len(found.summary) > 3
    assert found.gap is not None
    assert found.gap.tokens == 204


def test_the_newest_messages_are_never_summarized() -> None:
    raws = [user("Begin."), *tool_loop(6, 600)]
    state = walked(raws, 400, COMPACT)
    summarize(state)
    assert max(state.edits) < len(raws) - 4


def test_segments_of_units_one_by_one() -> None:
    state = walked([user(), *tool_loop(2)], LARGE, Policy(ShapingSettings(segment_share=0)))
    assert next_segment(state, 5) == Segment(0, 1)
    state.summarized = 1
    assert next_segment(state, 2) is None
    assert next_segment(state, 3) == Segment(1, 3)


@pytest.mark.parametrize("stage", [summarize, drop, shed])
def test_what_fits_is_left_alone(stage: object) -> None:
    state = walked(CHAT, LARGE, COMPACT)
    stage(state)  # type: ignore[operator]
    assert not state.edits
    assert state.size == tokens(CHAT)
