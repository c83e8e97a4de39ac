"""Which messages a summary stands for: segments, how far, and which never."""

from __future__ import annotations

import math

import pytest

from tests.context.plans import planned, tokens, walked
from tests.support.messages import assistant, prose, system, tool_loop, user
from trimtab.context.edits import Segment
from trimtab.context.plan.pins import set_target
from trimtab.context.plan.state import State
from trimtab.context.plan.summarize import _stride, compact, next_segment, summarize
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.context.read.memo import Memo
from trimtab.context.read.structure import structure
from trimtab.context.read.views import View

LARGE = 10**6


def turn(k: int, chars: int = 400) -> list[bytes]:
    return [user(f"Question {k}? {prose(chars)}"), assistant(f"Answer {k}. {prose(chars)}")]


COMPACT = Policy(ShapingSettings(segment_share=0.2, target=0.5), compaction=True, summary_tokens=60)


def test_segments_do_not_depend_on_when_the_overflow_happens() -> None:
    raws = [system(), user("Begin."), *tool_loop(20, 600)]
    budget = tokens(raws) // 2
    early, late = (walked(raws[:n], budget, COMPACT) for n in (22, len(raws)))
    for state in (early, late):
        while next_segment(state, state.end) is not None:
            state.compaction.passed += 1
    assert early.compaction.segments == late.compaction.segments[: len(early.compaction.segments)]
    assert early.compaction.segments[0].start == 1
    assert all(a.stop == b.start for a, b in zip(late.compaction.segments, late.compaction.segments[1:], strict=False))
    grid = 2 ** round(math.log2(budget * 0.2))
    assert all(
        tokens(raws[s.start : s.stop]) >= grid > tokens(raws[s.start : s.stop - 2]) for s in late.compaction.segments
    )


def test_segments_stay_where_they_are_when_the_budget_moves_a_little() -> None:
    """Calibration moves the budget by steps of some percent."""
    raws = [system(), user("Begin."), *tool_loop(20, 600)]
    found = []
    for budget in (5000, 5300, 5700):
        state = walked(raws, budget, COMPACT)
        while next_segment(state, state.end) is not None:
            state.compaction.passed += 1
        found.append(state.compaction.segments)
    assert found[0] == found[1] == found[2]


def test_one_summary_stands_for_all_segments() -> None:
    raws = [system(), user("Begin."), *tool_loop(20, 600)]
    state = walked(raws, tokens(raws) * 3 // 4, COMPACT)
    summarize(state)
    assert state.compaction.covered == state.compaction.passed > 0
    stop = state.compaction.segments[state.compaction.covered - 1].stop
    assert sorted(state.edits) == list(range(2, stop))
    assert {e.stage for e in state.edits.values()} == {"summarized"}
    assert state.compaction.gap_tokens == 64


def test_a_summary_is_not_made_for_less_than_it_takes() -> None:
    raws = [system(), user("Begin."), *tool_loop(8, 100), user("And?")]
    costly = Policy(ShapingSettings(segment_share=0.1), compaction=True, summary_tokens=5_000)
    state = walked(raws, tokens(raws) - 1, costly)
    summarize(state)
    assert not state.edits
    assert (state.compaction.covered, state.compaction.gap_tokens) == (0, 0)
    found = planned(raws, costly, tokens(raws) - 1)
    assert found.summary == ()
    assert found.sent < found.original


def test_small_segments_are_summarized_together_once_they_take_more_than_the_summary() -> None:
    raws = [system(), *(m for k in range(30) for m in turn(k, 60)), user("And?")]
    rules = Policy(
        ShapingSettings(segment_share=0.02, target=0.3, extract_share=0), compaction=True, summary_tokens=200
    )
    found = planned(raws, rules, tokens(raws) - 1)
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
    state.compaction.passed = 1
    assert next_segment(state, 2) is None
    assert next_segment(state, 3) == Segment(1, 3)


# -- the worked example of `compact` -----------------------------------------------------------------------------

SIZES = (96, 100, 60, 40, 120, 40, 120, 40, 120, 40, 100, 40)
ROLES = ("system", *("user", "assistant") * 5, "user")


def example(keep_recent: int) -> State:
    """The example, in which only segments before the newest `keep_recent` messages can be taken."""
    shaping = ShapingSettings(target=0.5, segment_share=0.15, keep_recent=keep_recent, extract_share=0)
    views = [View(role, size) for role, size in zip(ROLES, SIZES, strict=True)]
    rules = Policy(shaping, compaction=True, summary_tokens=96)
    state = State(structure([b""] * len(views), views), 0, rules, 896, Memo())
    state.advance(len(views))
    set_target(state)
    return state


# how many of the newest messages are left alone: segments covered, size, whether enough was taken
STEPS = {9: (0, 916, False), 7: (2, 796, False), 5: (3, 636, False), 2: (4, 476, True)}


@pytest.mark.parametrize("keep_recent", STEPS)
def test_the_steps_of_the_worked_example(keep_recent: int) -> None:
    state = example(keep_recent)
    assert state.size == 916
    enough = compact(state)
    assert (state.compaction.covered, state.size, enough) == STEPS[keep_recent]


def test_what_the_worked_example_ends_with() -> None:
    state = example(2)
    compact(state)
    assert state.compaction.segments == [Segment(1, 3), Segment(3, 5), Segment(5, 7), Segment(7, 9)]
    assert sorted(state.edits) == [2, 3, 4, 5, 6, 7, 8]
    assert state.compaction.gap_tokens == 100
    assert _stride(state) == 350
