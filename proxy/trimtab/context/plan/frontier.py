"""The frontier of compaction, which the stages summarize and drop move: over whole turns, and inside a turn that is
too long to go at once over whole tool cycles. It only moves forward.

What the frontier passes is removed, but for what is pinned at that moment. The question of a turn stays as long as a
later part of its turn does, so that what is sent never begins with an assistant message. Kept units that have lost
their pin since go first when the frontier has to move again.
"""

from __future__ import annotations

import msgspec

from trimtab.context.edits import Stage
from trimtab.context.plan.alternation import drop_user, is_answer_to_keep, keep_answer
from trimtab.context.plan.state import State
from trimtab.context.read.structure import REMINDER, SYSTEM_ROLES

_UNPINNED = "no longer pinned"
_ITS_TURN = "its turn was removed"


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
        if unit.role == REMINDER:
            _pass_reminder(state, u, pins, stage)
            continue
        state.message_count -= unit.stop - unit.start
        if unit.role == "user":
            _leave_question(state, pins, stage)
            compaction.held_question = u
        elif u in pins:
            compaction.kept_pins[u] = None
        elif is_answer_to_keep(state, u):
            keep_answer(state, u)
        elif is_removable(state, u):
            state.drop(u, stage, reason)


def _pass_reminder(state: State, u: int, pins: set[int], stage: Stage) -> None:
    if u in pins:
        state.compaction.kept_reminders[u] = None
    else:
        state.drop(u, stage, _ITS_TURN)


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
    if u in pins or (kept and units[next(reversed(kept))].turn == units[u].turn):
        kept[u] = None
    else:
        drop_user(state, u, stage, _ITS_TURN)


def drop_unpinned(state: State, pins: set[int], goal: Goal) -> None:
    """Drop, oldest first and as far as needed, what was pinned when the frontier passed and is no longer; the question
    of a turn only when nothing else of its turn stays. System messages whose turn is gone go at once."""
    units, compaction = state.structure.units, state.compaction
    for u in [u for u in compaction.kept_reminders if u not in pins]:
        del compaction.kept_reminders[u]
        state.drop(u, "dropped", _ITS_TURN)
    kept_turns = set()  # turns of which something else stays
    for u in sorted(compaction.kept_pins, key=lambda u: (units[u].turn, units[u].role == "user", u)):
        unit = units[u]
        if u in pins or goal.reached(state) or (unit.role == "user" and unit.turn in kept_turns):
            kept_turns.add(unit.turn)
            continue
        del compaction.kept_pins[u]
        if state.unit_gone(u) or u in compaction.kept_answers.values():
            continue
        if is_answer_to_keep(state, u):
            keep_answer(state, u)
        elif unit.role == "user":
            drop_user(state, u, "dropped", _UNPINNED)
        else:
            state.drop(u, "dropped", _UNPINNED)
