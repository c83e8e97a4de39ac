"""Which summary the next overflow will ask for: known before it comes, because the stages that will decide run now, on
a state that is over its budget by what has not been written yet.

A summary is worth making ahead only where clearing will not do, and only the very summary that will be asked for.
"""

from __future__ import annotations

from trimtab.context.edits import Segment
from trimtab.context.plan.clear import clear
from trimtab.context.plan.pins import set_target
from trimtab.context.plan.shorten import truncate
from trimtab.context.plan.state import State
from trimtab.context.plan.summarize import compact

# An overflow is near when as much as the newest so many messages came to would bring it (twelve steps of an agent,
# in which even a slow model has written a summary), or one more message like the largest so far. A conversation that
# grows slowly is left alone until then: it may end before.
_NEWEST = 24
# Share of the way from `precompact_share` to the budget from which no further segments are waited for.
_URGENT = 0.6


def segments_ahead(state: State) -> tuple[Segment, ...]:
    """All segments of the summary that the next overflow will ask for; empty while it is far or needs no summary.
    The state cannot be used afterwards."""
    if not _is_near(state):
        return ()
    budget, covered = state.budget, state.compaction.covered
    ahead = int(budget * (1 - state.policy.precompact_share)) + 1
    urgent = state.size > budget - ahead * (1 - _URGENT)
    state.clearing.newest_protected = False
    state.size += ahead
    set_target(state)
    truncate(state)
    clear(state)
    if not state.over:
        return ()
    state.size = budget + 1
    enough = compact(state)
    if state.compaction.covered == covered or not (urgent or enough):
        return ()
    return tuple(state.compaction.segments[: state.compaction.covered])


def _is_near(state: State) -> bool:
    if not state.policy.compaction or state.over:
        return False
    if state.size <= state.budget * state.policy.precompact_share:
        return False
    structure = state.structure
    sizes = [view.tokens for i, view in enumerate(structure.views[: state.end]) if not structure.is_fixed(i)]
    return state.size + max(sum(sizes[-_NEWEST:]), max(sizes, default=0)) > state.budget
