"""The frontier of compaction, which the stages summarize and drop move: over whole turns, and inside a turn that is
too long to go at once over whole tool cycles. It only moves forward.

What the frontier passes is removed, but for what is pinned at that moment. The question of a turn stays as long as a
later part of its turn does, so that what is sent never begins with an assistant message. Kept units that have lost
their pin since go first when the frontier has to move again.
"""

from __future__ import annotations

import msgspec

from trimtab.context.edits import Stage
from trimtab.context.plan.alternation import drop_kept_answers, is_answer_to_keep
from trimtab.context.plan.state import State
from trimtab.context.read.structure import SYSTEM_ROLES


class Goal(msgspec.Struct, frozen=True):
    """How far the frontier moves: down to the target in tokens, and in messages where those are limited."""

    tokens: int
    messages: int
    least_tokens: int  # a turn goes as a whole only where at least this stays
    least_messages: int

    def reached(self, state: State) -> bool:
        """True when the frontier need not move further."""
        return state.size <= self.tokens and state.message_count <= self.messages


def goal_of(state: State) -> Goal:
    """How far the frontier has to move at this boundary."""
    exceeded = [n for n in state.message_limits if state.message_count > n]
    messages = int(min(exceeded) * state.policy.shaping.target) if exceeded else state.message_count
    tokens = state.target if state.over else state.size
    return Goal(tokens, messages, min(tokens, state.target) // 2, messages // 2 if exceeded else 0)


def first_recent(state: State) -> int:
    """The first of the newest messages, which dropping and summarizing leave alone: at least one. What follows another
    message does not count."""
    keep = max(1, min(state.policy.shaping.keep_recent, *state.message_limits, state.end))
    if state.structure.home_of is state.structure.caller_of:  # no message follows another
        return state.end - keep
    at = state.end
    while at and keep:
        at -= 1
        keep -= not state.structure.is_follower(at)
    return at


def advance(state: State, to: int, pins: set[int], stage: Stage, reason: str) -> None:
    """Move the frontier to unit `to`."""
    compaction, units = state.compaction, state.structure.units
    while compaction.frontier < to:
        u = compaction.frontier
        unit = units[u]
        compaction.frontier += 1
        if unit.role in SYSTEM_ROLES or state.gone[unit.start]:
            continue
        state.message_count -= unit.stop - unit.start
        if unit.role == "user":
            _leave_question(state, pins, stage)
            compaction.held_question = u
        elif u in pins:
            compaction.kept_pins.append(u)
        elif is_answer_to_keep(state, u):
            compaction.kept_answers[u + 1] = u
        elif is_removable(state, u):
            state.drop(u, stage, reason)


def is_removable(state: State, u: int) -> bool:
    """False for system messages, which stay, and for a late result, which stays with its call."""
    unit = state.structure.units[u]
    caller = state.structure.caller_of[unit.start]
    return unit.role not in SYSTEM_ROLES and (caller == unit.start or bool(state.gone[caller]))


def release_question(state: State, pins: set[int], stage: Stage) -> None:
    """Leave the held question if the frontier stands at the start of the next turn."""
    compaction, units = state.compaction, state.structure.units
    if compaction.held_question is None or compaction.frontier >= state.units_walked:
        return
    if units[compaction.frontier].turn != units[compaction.held_question].turn:
        _leave_question(state, pins, stage)


def _leave_question(state: State, pins: set[int], stage: Stage) -> None:
    """The frontier has left the turn of the held question: it goes, unless it or something of its turn is pinned."""
    compaction, units = state.compaction, state.structure.units
    u, compaction.held_question = compaction.held_question, None
    if u is None or state.unit_gone(u):
        return
    kept = compaction.kept_pins
    if u in pins or (kept and units[kept[-1]].turn == units[u].turn):
        kept.append(u)
    else:
        _drop_question(state, u, stage, "its turn was removed")


def _drop_question(state: State, u: int, stage: Stage, reason: str) -> None:
    """Drop a unit, and where roles must alternate the answer kept before it; all of those when the task goes and no
    note stands in its place, because an answer would come first."""
    state.drop(u, stage, reason)
    drop_kept_answers(state, u if state.compaction.gap_tokens or state.task else None)


def drop_unpinned(state: State, pins: set[int], goal: Goal) -> None:
    """Drop, oldest first and as far as needed, what was pinned when the frontier passed and is no longer; the question
    of a turn only when nothing else of its turn stays."""
    units = state.structure.units
    kept_turns = set()  # turns of which something else stays
    kept = []
    for u in sorted(state.compaction.kept_pins, key=lambda u: (units[u].turn, units[u].role == "user", u)):
        unit = units[u]
        if u in pins or goal.reached(state) or (unit.role == "user" and unit.turn in kept_turns):
            kept.append(u)
            kept_turns.add(unit.turn)
        elif not state.unit_gone(u):
            _drop_question(state, u, "dropped", "no longer pinned")
    state.compaction.kept_pins = [u for u in kept if not state.unit_gone(u)]
