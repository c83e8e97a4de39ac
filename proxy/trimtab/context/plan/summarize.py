"""The stage that lets a summary stand for the oldest part of the conversation.

The history is cut into segments on a size grid, from its start. The frontier advances over whole segments; one
summary stands for all of them. It is counted at its allotted size, so a plan needs no summary text.
"""

from __future__ import annotations

import math

from trimtab.context.edits import Segment
from trimtab.context.estimate.tokens import MESSAGE_OVERHEAD, text_tokens
from trimtab.context.plan.alternation import is_answer_to_keep
from trimtab.context.plan.frontier import advance, drop_unpinned, first_recent, goal_of, is_removable, release_question
from trimtab.context.plan.pins import pinned_units
from trimtab.context.plan.state import NOTE_TOKENS, State
from trimtab.context.texts import SUMMARY_READ

_ANSWER_TOKENS = text_tokens(SUMMARY_READ) + MESSAGE_OVERHEAD  # see `Gap.answered`


def summarize(state: State) -> None:
    """Advance over whole segments once they free more than their summary costs. One summary stands for all of them."""
    compact(state)


def compact(state: State) -> bool:
    """The stage `summarize`. Returns True when it took as much as it should, False when segments ran out.

    An overflow takes a fixed amount, the stride, and not just what brings it below the budget: so the next overflow
    is far, and the summary it needs is known beforehand. The frontier waits until the segments free more than their
    summary costs.

    A worked example: a budget of 896 tokens of which the target is the half, segments of at least 128 tokens, a
    summary counted at 100, and the newest 2 messages left alone. The task (message 1) and the question (11) are
    pinned.

        message      0    1    2    3    4    5    6    7    8    9   10   11
        role       sys user asst user asst user asst user asst user asst user
        tokens      96  100   60   40  120   40  120   40  120   40  100   40     916 in all: 20 over the budget
        segment        |-- 1 --| |-- 2 --| |-- 3 --| |-- 4 --|

    The stride is half of what the budget leaves beside the system prompt and the task: (896 - 96 - 100) / 2 = 350.
    The first summary costs 100 itself, so 450 tokens are to be taken from the history.

        segment  frees  freed  to take  size
                            0      450   916
              1     60     60      390   916   the task stays; 60 is less than the summary costs: the frontier waits
              2    160    220      230   796   the frontier passes both segments: 916 - 220 + 100 for the summary
              3    160    380       70   636   fits, but the stride is not taken yet
              4    160    540      -90   476   done: one summary stands for messages 2 to 8

    A second overflow takes 350 from segment 5 on, and its summary is made from the first one and those segments.
    """
    goal, compaction = goal_of(state), state.compaction
    if not state.policy.compaction or goal.reached(state):
        return True
    pins, limit, settled = pinned_units(state), first_recent(state), compaction.passed
    cost, stride = _cost(state), _stride(state)
    freed, to_take = compaction.gap_tokens, stride + (0 if compaction.covered else cost) if state.over else 0
    drop_unpinned(state, pins, goal)
    while state.over or to_take > 0 or state.message_count > goal.messages:
        segment = next_segment(state, limit)
        if segment is None:
            break
        compaction.passed += 1
        freed += _freed_by(state, segment, pins)
        to_take -= _tokens_after_clearing(state, segment)
        if freed > cost:
            _pass(state, segment, pins, cost)
            settled = compaction.passed
        elif freed == compaction.gap_tokens:  # a segment that frees nothing need not be looked at again
            settled = compaction.passed
        if state.over and to_take <= 0:
            to_take += stride
    compaction.passed = settled
    return not state.over and to_take <= 0 and state.message_count <= goal.messages


def _cost(state: State) -> int:
    """Tokens that a summary in the gap may take, with the answer it may need."""
    answer = _ANSWER_TOKENS if state.policy.strict_roles else 0
    return max(state.policy.summary_tokens + MESSAGE_OVERHEAD, NOTE_TOKENS) + answer


def _pass(state: State, segment: Segment, pins: set[int], cost: int) -> None:
    """Advance over a segment, and let the summary stand for all segments passed."""
    advance(state, state.structure.unit_of[segment.stop - 1] + 1, pins, "summarized", "part of the summary")
    release_question(state, pins, "summarized")
    state.open_gap(cost)
    state.compaction.covered = state.compaction.passed
    state.gap_changed()


# A usual budget: a context window that is a power of two, less an eighth for the answer.
_USUAL = 0.875


def _stride(state: State) -> int:
    """Tokens of the history that an overflow takes at once. The same for every overflow, so the segments are known
    before it comes (`lookahead`). The budget is rounded to the nearest usual one, so that a budget that calibration
    has moved a little still asks for the summaries that were made."""
    budget = _USUAL * 2 ** round(math.log2(max(1, state.budget) / _USUAL))
    task = sum(state.structure.views[i].tokens for i in state.structure.task)
    return max(1, int((budget - state.fixed - task) * (1 - state.policy.shaping.target)))


def _tokens_after_clearing(state: State, segment: Segment) -> int:
    """Tokens of a segment once every result in it that can be cleared is: what only summarizing can free. System
    messages and the task do not count."""
    views, task, excluded = state.structure.views, state.structure.task, state.policy.excluded
    total = 0
    for i in range(segment.start, segment.stop):
        view = views[i]
        if state.structure.is_fixed(i) or i in task:
            continue
        is_clearable = view.is_result and not (excluded and state.structure.tool_of(i) in excluded)
        total += min(view.cleared_tokens, view.tokens) if is_clearable else view.tokens
    return total


def next_segment(state: State, limit: int) -> Segment | None:
    """The first segment after those passed, if all of it lies before message `limit`.

    Segments are cut from the start of the history on a size grid, by the sizes of the messages before any edit, so
    they do not depend on when the overflow happens. The grid is a power of two of tokens: a budget moves with the
    calibration, and every summary made so far is lost once segments are cut elsewhere.
    """
    segments, passed = state.compaction.segments, state.compaction.passed
    if passed < len(segments):
        return segments[passed] if segments[passed].stop <= limit else None
    units, views = state.structure.units, state.structure.views
    grid = 1 << round(math.log2(max(1.0, state.budget * state.policy.shaping.segment_share)))
    u = state.structure.unit_of[segments[-1].stop - 1] + 1 if segments else state.structure.first_unit
    start, size = u, 0
    while u < len(units) and units[u].stop <= limit:
        size += sum(views[i].tokens for i in range(units[u].start, units[u].stop))
        u += 1
        if size >= grid:
            segments.append(Segment(units[start].start, units[u - 1].stop))
            return segments[-1]
    return None


def _freed_by(state: State, segment: Segment, pins: set[int]) -> int:
    """Tokens that go when the frontier passes a segment. The question of a turn that goes on after it stays."""
    units, unit_of = state.structure.units, state.structure.unit_of
    first, stop = unit_of[segment.start], unit_of[segment.stop - 1] + 1
    next_turn = units[stop].turn if stop < len(units) else 0

    def goes(u: int) -> bool:
        is_question_of_next = units[u].role == "user" and units[u].turn == next_turn
        return u not in pins and is_removable(state, u) and not is_question_of_next

    going = {u for u in range(max(first, state.compaction.frontier), stop) if goes(u)}
    after = state.answers.user_after
    return sum(state.unit_size(u) for u in going if after.get(u) in going or not is_answer_to_keep(state, u))
