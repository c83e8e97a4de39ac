"""The stages that take messages out: summarize, drop, shed. All move one frontier, and only forward: over whole turns,
and inside a turn that is too long to go at once over whole tool cycles.

What the frontier passes is gone, but for what is pinned at that moment. The question of a turn stays as long as a
later part of its turn does, so that what is sent never begins with an assistant message. What has lost its pin since
goes first when the frontier has to move again.
"""

from __future__ import annotations

import math

import msgspec

from trimtab.context.edits import Segment, Stage
from trimtab.context.plan.alternation import bridges, unbridged
from trimtab.context.plan.replay import NOTE_TOKENS, State
from trimtab.context.read.turns import SYSTEM_ROLES
from trimtab.context.read.views import MESSAGE_OVERHEAD

_OLDEST = "oldest part of the conversation"


class Goal(msgspec.Struct, frozen=True):
    """How far the frontier moves: down to the target in tokens, and in messages where those are counted."""

    tokens: int
    messages: int
    least_tokens: int  # a turn goes as a whole only where not less than this stays
    least_messages: int

    def reached(self, state: State) -> bool:
        return state.size <= self.tokens and state.kept <= self.messages


def _goal(state: State) -> Goal:
    exceeded = [n for n in state.windows if state.kept > n]
    messages = int(min(exceeded) * state.policy.shaping.target) if exceeded else state.kept
    tokens = state.target if state.over else state.size
    return Goal(tokens, messages, min(tokens, state.target) // 2, messages // 2 if exceeded else 0)


def _recent(state: State) -> int:
    """Index of the first of the newest messages, which dropping and summarizing leave alone: at least one."""
    keep = min(state.policy.shaping.keep_recent, *state.windows, state.end)
    return state.end - max(1, keep)


# -- summaries ---------------------------------------------------------------------------------------------------


def summarize(state: State) -> None:
    """Advance over whole segments; one summary stands for all of them, once they take more room than it does."""
    compact(state)


def compact(state: State) -> bool:
    """The stage `summarize`; gives whether it went as far as it should, or ran out of segments before."""
    goal = _goal(state)
    if not state.policy.compaction or goal.reached(state):
        return True
    pins, limit, before = state.pins(), _recent(state), state.summarized
    cost = max(state.policy.summary_tokens + MESSAGE_OVERHEAD, NOTE_TOKENS)
    stride = _stride(state)
    won, left = state.gap_tokens, stride + (0 if state.standing else cost) if state.over else 0
    _unpinned(state, pins, goal)
    while state.over or left > 0 or state.kept > goal.messages:
        segment = next_segment(state, limit)
        if segment is None:
            break
        state.summarized += 1
        won += _freed_by(state, segment, pins)
        left -= _lasting(state, segment)
        if won > cost:
            _advance(state, state.unit_of[segment.stop - 1] + 1, pins, "summarized", "part of the summary")
            _release(state, pins, "summarized")
            state.open_gap(cost)
            before = state.standing = state.summarized
        elif won == state.gap_tokens:  # what frees nothing need not be looked at again
            before = state.summarized
        if state.over and left <= 0:
            left += stride
    state.summarized = before
    return not state.over and left <= 0 and state.kept <= goal.messages


# The shape of a usual budget: a window that is a power of two, less an eighth for the answer.
_USUAL = 0.875


def _stride(state: State) -> int:
    """Tokens of the history that an overflow takes at once. Not what this very overflow needs, but the same for any:
    so the segments can be told before it comes (`foresight`), and a budget that calibration has moved a little still
    asks for the summaries that were made. Its budget is therefore rounded, to the nearest usual one."""
    budget = _USUAL * 2 ** round(math.log2(max(1, state.budget) / _USUAL))
    task = sum(state.views[i].tokens for i in state.users[:1])
    return max(1, int((budget - state.fixed - task) * (1 - state.policy.shaping.target)))


def _lasting(state: State, segment: Segment) -> int:
    """Tokens of a segment once all that can be cleared in it is: what summarizing alone can free."""
    views, task, excluded = state.views, state.users[:1], state.policy.excluded
    inside = (i for i in range(segment.start, segment.stop) if views[i].role not in SYSTEM_ROLES and i not in task)

    def left(i: int) -> int:
        stays = not views[i].is_result or (bool(excluded) and state.tool_of(i) in excluded)
        return views[i].tokens if stays else min(views[i].cleared, views[i].tokens)

    return sum(map(left, inside))


def next_segment(state: State, limit: int) -> Segment | None:
    """The first segment after those summarized, if all of it lies before message `limit`.

    Segments are cut from the start of the history on a size grid, by what the messages were before any edit, so
    they do not depend on when the overflow happens. The grid is a power of two: budgets are in the estimator's tokens
    and move with its calibration, and each summary made so far is worth nothing once segments are cut elsewhere.
    """
    if state.summarized < len(state.segments):
        segment = state.segments[state.summarized]
        return segment if segment.stop <= limit else None
    grid = 1 << round(math.log2(max(1.0, state.budget * state.policy.shaping.segment_share)))
    u = state.unit_of[state.segments[-1].stop - 1] + 1 if state.segments else state.home
    start, size = u, 0
    while u < len(state.units) and state.units[u].stop <= limit:
        size += sum(state.views[i].tokens for i in range(state.units[u].start, state.units[u].stop))
        u += 1
        if size >= grid:
            state.segments.append(Segment(state.units[start].start, state.units[u - 1].stop))
            return state.segments[-1]
    return None


def _freed_by(state: State, segment: Segment, pins: set[int]) -> int:
    """Tokens that go when the frontier passes a segment; the question of a turn that goes on stays."""
    first, stop = state.unit_of[segment.start], state.unit_of[segment.stop - 1] + 1
    on = state.units[stop].turn if stop < len(state.units) else 0
    passed = range(max(first, state.frontier), stop)
    going = {u for u in passed if u not in pins and _may_go(state, u) and not _heads(state, u, on)}
    return sum(state.unit_size(u) for u in going if u + 1 in going or not bridges(state, u))


def _may_go(state: State, u: int) -> bool:
    """System messages stay, and a late result stays with its call."""
    start = state.units[u].start
    home = state.home_of[start]
    return state.units[u].role not in SYSTEM_ROLES and (home == start or bool(state.gone[home]))


def _heads(state: State, u: int, turn: int) -> bool:
    return state.units[u].role == "user" and state.units[u].turn == turn


# -- dropping ----------------------------------------------------------------------------------------------------


def drop(state: State) -> None:
    """Advance over whole turns, oldest first, and inside a long turn over whole cycles."""
    _drop_before(state, state.unit_of[_recent(state)], None)


def shed(state: State) -> None:
    """The last resort before a refusal: everything but system messages and the current question goes, and at the
    very end the note or the summary too."""
    if not state.over:
        return
    _drop_before(state, state.walked, set() if state.question is None else {state.unit_of[state.question]})
    if state.over:
        unbridged(state)
    if state.over:
        state.close_gap()


def _drop_before(state: State, last: int, only: set[int] | None) -> None:
    """Advance to unit `last` at most: over a whole turn at once, or unit by unit where the whole turn would go far
    below the target (a sub-agent's conversation is one turn) or may not go as a whole."""
    goal = _goal(state)
    if goal.reached(state):
        return
    pins = state.pins() if only is None else only
    _unpinned(state, pins, goal)
    while state.frontier < last and not goal.reached(state):
        stop, whole = _rest_of_turn(state, last, goal)
        while state.frontier < stop and (whole or not goal.reached(state)):
            _advance(state, state.frontier + 1, pins, "dropped", _OLDEST)
    _release(state, pins, "dropped")


def _rest_of_turn(state: State, last: int, goal: Goal) -> tuple[int, bool]:
    """Where the turn the frontier stands in ends, `last` at most, and whether it goes as a whole."""
    first = stop = state.frontier
    turn, weight = state.units[first].turn, 0
    while stop < last and state.units[stop].turn == turn:
        weight += state.unit_size(stop)
        stop += 1
    messages = state.units[stop - 1].stop - state.units[first].start
    deep = state.size - weight < goal.least_tokens or state.kept - messages < goal.least_messages
    return stop, stop < last and not deep


# -- the frontier ------------------------------------------------------------------------------------------------


def _advance(state: State, to: int, pins: set[int], stage: Stage, reason: str) -> None:
    """Move the frontier to unit `to`."""
    while state.frontier < to:
        u = state.frontier
        unit = state.units[u]
        state.frontier += 1
        if unit.role in SYSTEM_ROLES or state.gone[unit.start]:
            continue
        state.kept -= unit.stop - unit.start
        if unit.role == "user":
            _let_go(state, pins, stage)
            state.held = u
        elif u in pins:
            state.stayed.append(u)
        elif bridges(state, u):
            state.bridges[u + 1] = u
        elif _may_go(state, u):
            state.drop(u, stage, reason)


def _let_go(state: State, pins: set[int], stage: Stage) -> None:
    """The frontier has left the turn of the held question: it goes, unless it or something of its turn is pinned."""
    u, state.held = state.held, None
    if u is None or state.gone[state.units[u].start]:
        return
    anchored = bool(state.stayed) and state.units[state.stayed[-1]].turn == state.units[u].turn
    if u in pins or anchored:
        state.stayed.append(u)
    else:
        _drop_question(state, u, stage, "its turn was removed")


def _drop_question(state: State, u: int, stage: Stage, reason: str) -> None:
    """Drop a unit, and where roles must alternate the answer kept before it; all of those when the task goes and no
    note stands in its place, because an answer would come first."""
    state.drop(u, stage, reason)
    unbridged(state, u if state.gap_tokens or u != state.home else None)


def _release(state: State, pins: set[int], stage: Stage) -> None:
    """Let the held question go if the frontier stands at the start of the next turn."""
    if state.held is None or state.frontier >= state.walked:
        return
    if state.units[state.frontier].turn != state.units[state.held].turn:
        _let_go(state, pins, stage)


def _unpinned(state: State, pins: set[int], goal: Goal) -> None:
    """Drop, oldest first and as far as needed, what was pinned when the frontier passed and is no longer; the question
    of a turn only when nothing else of its turn stays."""
    units = state.units
    anchors = set()  # turns of which something else stays
    still = []
    for u in sorted(state.stayed, key=lambda u: (units[u].turn, units[u].role == "user", u)):
        unit = units[u]
        if u in pins or goal.reached(state) or (unit.role == "user" and unit.turn in anchors):
            still.append(u)
            anchors.add(unit.turn)
        elif not state.gone[unit.start]:
            _drop_question(state, u, "dropped", "no longer pinned")
    state.stayed = [u for u in still if not state.gone[units[u].start]]
