"""What the next overflow will take: known before it comes, because the stages that will decide are run now, on a state
that is over its budget by what has not been written yet.

A summary is worth making ahead only where clearing will not do, and only the very summary that will be asked for.
"""

from __future__ import annotations

from trimtab.context.edits import Segment
from trimtab.context.plan import frontier, stages
from trimtab.context.plan.replay import State
from trimtab.context.read.turns import SYSTEM_ROLES

# An overflow is near when as much as the newest so many messages came to would bring it (twelve steps of an agent,
# in which even a slow model has written a summary), or one more message like the largest so far. A conversation that
# grows slowly is left alone until then: it may end before.
_NEWEST = 24
# Share of the way from `precompact_share` to the budget from which no further segments are waited for.
_URGENT = 0.6


def segments(state: State) -> tuple[Segment, ...]:
    """All segments of the summary that the next overflow will want, or none while it is far or wants none.
    Spoils the state."""
    if not _near(state):
        return ()
    budget, standing = state.budget, state.standing
    ahead = int(budget * (1 - state.policy.precompact_share)) + 1
    urgent = state.size > budget - ahead * (1 - _URGENT)
    state.foreseen = True
    state.size += ahead
    state.aim()
    stages.truncate(state)
    stages.clear(state)
    if not state.over:
        return ()
    state.size = budget + 1
    whole = frontier.compact(state)
    if state.standing == standing or not (urgent or whole):
        return ()
    return tuple(state.segments[: state.standing])


def _near(state: State) -> bool:
    if not state.policy.compaction or state.over:
        return False
    if state.size <= state.budget * state.policy.precompact_share:
        return False
    sizes = [view.tokens for view in state.views[: state.end] if view.role not in SYSTEM_ROLES]
    return state.size + max(sum(sizes[-_NEWEST:]), max(sizes, default=0)) > state.budget
