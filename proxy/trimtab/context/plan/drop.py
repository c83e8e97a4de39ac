"""The stages that remove messages without a summary: whole turns, oldest first, and inside a long turn whole cycles.
A note stands in the gap.
"""

from __future__ import annotations

from trimtab.context.plan.alternation import drop_kept_answers
from trimtab.context.plan.frontier import Goal, advance, drop_unpinned, first_recent, goal_of, release_question
from trimtab.context.plan.pins import pinned_units, unremovable_units
from trimtab.context.plan.state import State

_OLDEST = "oldest part of the conversation"


def drop(state: State) -> None:
    """Advance over whole turns, oldest first, and inside a long turn over whole cycles."""
    _drop_before(state, state.structure.unit_of[first_recent(state)], None)


def drop_all_but_question(state: State) -> None:
    """The last resort before a refusal: the extract goes, then everything but system messages, the current question
    and a prefill. A task that is pinned goes last, and at the very end the note or the summary too."""
    if state.over:
        state.close_extract()
    if not state.over:
        return
    unit_of = state.structure.unit_of
    unremovable = unremovable_units(state)
    task = {unit_of[i] for i in state.task} - unremovable
    if task:
        _drop_before(state, state.units_walked, unremovable | (task & pinned_units(state)))
    if state.over:
        _drop_before(state, state.units_walked, unremovable)
    if state.over:
        drop_kept_answers(state)
    if state.over:
        state.close_gap()


def _drop_before(state: State, last: int, only: set[int] | None) -> None:
    """Advance to unit `last` at most: over a whole turn at once, or unit by unit where the whole turn would go far
    below the target (a sub-agent's conversation is one turn) or may not go as a whole. `only`: the units to keep
    instead of the pinned ones."""
    goal, compaction = goal_of(state), state.compaction
    if goal.reached(state):
        return
    pins = pinned_units(state) if only is None else only
    drop_unpinned(state, pins, goal)
    while compaction.frontier < last and not goal.reached(state):
        stop, whole = _rest_of_turn(state, last, goal)
        while compaction.frontier < stop and (whole or not goal.reached(state)):
            advance(state, compaction.frontier + 1, pins, "dropped", _OLDEST)
    release_question(state, pins, "dropped")


def _rest_of_turn(state: State, last: int, goal: Goal) -> tuple[int, bool]:
    """Where the turn the frontier stands in ends, `last` at most, and whether it goes as a whole."""
    units = state.structure.units
    first = stop = state.compaction.frontier
    turn, weight = units[first].turn, 0
    while stop < last and units[stop].turn == turn:
        weight += state.unit_size(stop)
        stop += 1
    messages = units[stop - 1].stop - units[first].start
    too_far = state.size - weight < goal.least_tokens or state.message_count - messages < goal.least_messages
    return stop, stop < last and not too_far
