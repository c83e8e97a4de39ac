"""The stage that lets a summary stand for the oldest part of the conversation.

The history is cut into segments on a size grid, from its start. The frontier advances over whole segments; one
summary stands for all of them. It is counted at its allotted size, so a plan needs no summary text.
"""

from __future__ import annotations

import math

from trimtab.context.edits import Segment
from trimtab.context.estimate.tokens import MESSAGE_OVERHEAD
from trimtab.context.plan.alternation import is_answer_to_keep
from trimtab.context.plan.frontier import advance, drop_unpinned, first_recent, goal, is_removable, release_question
from trimtab.context.plan.state import NOTE_TOKENS, State
from trimtab.context.read.structure import SYSTEM_ROLES


def summarize(state: State) -> None:
    """Advance over whole segments; one summary stands for all of them, once they take more room than it does."""
    compact(state)


def compact(state: State) -> bool:
    """The stage `summarize`. Returns True when it went as far as it should, False when segments ran out."""
    aim, compaction = goal(state), state.compaction
    if not state.policy.compaction or aim.reached(state):
        return True
    pins, limit, before = state.pins(), first_recent(state), compaction.passed
    cost = max(state.policy.summary_tokens + MESSAGE_OVERHEAD, NOTE_TOKENS)
    stride = _stride(state)
    won, left = compaction.gap_tokens, stride + (0 if compaction.covered else cost) if state.over else 0
    drop_unpinned(state, pins, aim)
    while state.over or left > 0 or state.message_count > aim.messages:
        segment = next_segment(state, limit)
        if segment is None:
            break
        compaction.passed += 1
        won += _freed_by(state, segment, pins)
        left -= _lasting(state, segment)
        if won > cost:
            to = state.structure.unit_of[segment.stop - 1] + 1
            advance(state, to, pins, "summarized", "part of the summary")
            release_question(state, pins, "summarized")
            state.open_gap(cost)
            before = compaction.covered = compaction.passed
        elif won == compaction.gap_tokens:  # what frees nothing need not be looked at again
            before = compaction.passed
        if state.over and left <= 0:
            left += stride
    compaction.passed = before
    return not state.over and left <= 0 and state.message_count <= aim.messages


# The shape of a usual budget: a window that is a power of two, less an eighth for the answer.
_USUAL = 0.875


def _stride(state: State) -> int:
    """Tokens of the history that an overflow takes at once. Not what this very overflow needs, but the same for any:
    so the segments are known before it comes (`lookahead`), and a budget that calibration has moved a little still
    asks for the summaries that were made. Its budget is therefore rounded, to the nearest usual one."""
    budget = _USUAL * 2 ** round(math.log2(max(1, state.budget) / _USUAL))
    task = sum(state.structure.views[i].tokens for i in state.users[:1])
    return max(1, int((budget - state.fixed - task) * (1 - state.policy.shaping.target)))


def _lasting(state: State, segment: Segment) -> int:
    """Tokens of a segment once all that can be cleared in it is: what summarizing alone can free."""
    views, task, excluded = state.structure.views, state.users[:1], state.policy.excluded
    inside = (i for i in range(segment.start, segment.stop) if views[i].role not in SYSTEM_ROLES and i not in task)

    def left(i: int) -> int:
        stays = not views[i].is_result or (bool(excluded) and state.structure.tool_of(i) in excluded)
        return views[i].tokens if stays else min(views[i].cleared_tokens, views[i].tokens)

    return sum(map(left, inside))


def next_segment(state: State, limit: int) -> Segment | None:
    """The first segment after those passed, if all of it lies before message `limit`.

    Segments are cut from the start of the history on a size grid, by what the messages were before any edit, so
    they do not depend on when the overflow happens. The grid is a power of two: budgets are in the estimator's tokens
    and move with its calibration, and each summary made so far is worth nothing once segments are cut elsewhere.
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
    """Tokens that go when the frontier passes a segment; the question of a turn that goes on stays."""
    units, unit_of = state.structure.units, state.structure.unit_of
    first, stop = unit_of[segment.start], unit_of[segment.stop - 1] + 1
    on = units[stop].turn if stop < len(units) else 0
    passed = range(max(first, state.compaction.frontier), stop)
    going = {
        u
        for u in passed
        if u not in pins and is_removable(state, u) and not (units[u].role == "user" and units[u].turn == on)
    }
    return sum(state.unit_size(u) for u in going if u + 1 in going or not is_answer_to_keep(state, u))
