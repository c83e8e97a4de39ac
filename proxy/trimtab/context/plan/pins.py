"""What must stay, as seen from the boundary at which the walk stands, and the target that follows from it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from trimtab.context.plan.state import NOTE_TOKENS, State


def pinned_units(state: State) -> set[int]:
    """Units that must stay: the task, the user messages of the run, what the client marked; the current question, a
    prefill and the newest system message are never released. Above `pin_share` of the budget the others are: the
    oldest injected message first, then what the client marked, the beginning of the run, and the task last.

    The question may be large. A task that fits `pin_share` of what system messages and the question leave keeps its
    pin beside it.
    """
    # Removed ones are forgotten, so that the next call costs what remains.
    state.client_pins = [u for u in state.client_pins if not state.unit_gone(u)]
    state.run = [i for i in state.run if not state.gone[i]]
    unit_of = state.structure.unit_of
    run, task = [unit_of[i] for i in state.run], dict.fromkeys([unit_of[i] for i in state.task])
    sizes = {u: state.unit_size(u) for u in [*run, *task, *state.client_pins, *unremovable_units(state)]}
    if sum(sizes.values()) > state.budget * state.policy.shaping.pin_share:
        in_order = dict.fromkeys([*run[1:], *sorted(state.client_pins), *run[:1], *task])
        _release(state, sizes, in_order, task)
    return set(sizes)


def _release(state: State, sizes: dict[int, int], in_order: Iterable[int], task: Collection[int]) -> None:
    """Take pinned units out of `sizes`, in order, until those left fit `pin_share` of the budget."""
    current, share = unremovable_units(state), state.policy.shaping.pin_share
    total, of_task = sum(sizes.values()), sum(sizes[u] for u in task)
    room = state.budget - state.fixed - sum(sizes[u] for u in current)
    for u in in_order:
        if total <= state.budget * share:
            break
        if u in current or (u in task and of_task <= room * share):
            continue
        size = sizes.pop(u)
        total -= size
        of_task -= size if u in task else 0


def unremovable_units(state: State) -> set[int]:
    """Units that are never removed, fixed system messages apart: those of the current question, of a prefill and of
    the newest system message within the conversation."""
    return {state.structure.unit_of[i] for i in (*state.users[-1:], *state.structure.prefill, *state.reminders)}


def set_target(state: State) -> None:
    """Set the target for this boundary: what stays anyway, and the share `target` of the room above it.

    A share of the whole budget could lie below a large system prompt or task, and shaping would then remove everything
    else at every step. A note that had to be given up is tried again.
    """
    if state.removed_tokens >= NOTE_TOKENS:
        state.open_gap(NOTE_TOKENS)
    stays = sum(state.unit_size(u) for u in pinned_units(state)) + state.fixed
    room = max(0, state.budget - stays)
    state.most_extract = state.extract_share_of(room)
    state.target = min(state.budget, stays + int(room * state.policy.shaping.target))
