"""The stage that clears old tool results: their text becomes a placeholder. First those that a later one stands for,
then oldest first, in batches, down to the target. The newest results stay whole, and so does what the model has not
seen yet.
"""

from __future__ import annotations

from trimtab.context.edits import NEWER_LATER, SAME_LATER
from trimtab.context.plan.repeats import compare
from trimtab.context.plan.state import State

# To clear a result must free at least this many tokens: a prefix break for less costs more than it saves.
_LEAST_FREED = 32
# An extract of a cleared result takes at most this part of its tokens; a shorter one tells nothing (tokens).
_RESULT_PART = 4
_LEAST_EXTRACT = 12
_STANDS_LATER = {SAME_LATER: "a later result has the same content", NEWER_LATER: "the same call was made again later"}


def clear(state: State) -> None:
    """Clear old tool results in batches, oldest first, down to the target; the newest are protected. A request
    that asked for clearing by `context_management` gets all of them cleared, as that vocabulary has it."""
    policy, clearing = state.policy, state.clearing
    uses = policy.trigger_tool_uses
    if state.size <= clearing.trigger and (uses is None or clearing.waiting <= uses):
        return
    if not policy.managed:
        _clear_repeated(state)
    stop = _first_protected(state)
    if not _frees(state, stop, policy.clear_at_least):
        return
    size = policy.shaping.clear_batch
    while state.size > state.target or policy.managed:
        batch, first, position = _batch(state, stop, size)
        clearing.considered = first  # what cannot be cleared is not looked at again
        if not batch or (len(batch) < size and not (state.over or policy.managed)):
            return  # an incomplete batch waits unless it is needed to fit
        for i in batch:
            _clear(state, i)
            _clear_inputs(state, i)
        clearing.considered = position


def _clear_repeated(state: State) -> None:
    """Clear the results that a later one stands for, wherever they stand: nothing that they say is lost, and whatever
    is sent from here on is new to the provider's cache anyway."""
    compare(state)
    clearing, found = state.clearing, state.clearing.repeats.found
    end = clearing.results[clearing.answered] if clearing.answered < len(clearing.results) else state.end
    excluded, pinned = state.policy.excluded, frozenset(state.client_pins)
    for i in sorted([i for i in found if i < end]):
        later, amount = found.pop(i)
        if later in state.edits or not _is_clearable(state, i, excluded) or state.structure.unit_of[i] in pinned:
            continue
        tokens = state.measure(i, "cleared", amount)
        if tokens < state.sent[i]:
            state.edit(i, "cleared", tokens, _STANDS_LATER[amount], amount)


def _clear(state: State, i: int) -> None:
    """Clear one result; a short extract of it stays where that is set and the result is large enough."""
    view = state.structure.views[i]
    amount = min(state.policy.shaping.result_extract, view.text_tokens // _RESULT_PART)
    tokens = view.cleared_tokens if amount < _LEAST_EXTRACT else state.measure(i, "cleared", amount)
    if tokens >= state.sent[i]:
        amount, tokens = 0, view.cleared_tokens
    state.edit(i, "cleared", tokens, "old tool result", amount if amount >= _LEAST_EXTRACT else 0)


def _first_protected(state: State) -> int:
    """Position in `clearing.results` of the first protected one. Protected are the newest that together fit
    `keep_share` of the budget (or the number the request asked to keep), and always the fresh ones."""
    clearing, keep = state.clearing, state.policy.keep_tool_uses
    results = clearing.results
    while clearing.considered < len(results) and state.gone[results[clearing.considered]]:
        clearing.considered += 1
    if keep is not None:
        return max(clearing.considered, min(clearing.answered, len(results) - max(keep, 0)))
    room = state.budget * state.policy.shaping.keep_share
    position = len(results)
    while position > clearing.considered and room >= state.sent[results[position - 1]]:
        position -= 1
        room -= state.sent[results[position]]
    return max(clearing.considered, min(position, clearing.first_fresh))


def _batch(state: State, stop: int, size: int) -> tuple[list[int], int, int]:
    """The next results to clear, the position of the first of them, and the position after the last."""
    batch: list[int] = []
    results = state.clearing.results
    first = position = state.clearing.considered
    excluded, pinned = state.policy.excluded, frozenset(state.client_pins)
    while position < stop and len(batch) < size:
        i = results[position]
        if _is_clearable(state, i, excluded) and state.structure.unit_of[i] not in pinned:
            batch.append(i)
        position += 1
        if not batch:
            first = position
    return batch, first, position


def _is_clearable(state: State, i: int, excluded: frozenset[str]) -> bool:
    if state.gone[i] or (i in state.edits and state.edits[i].stage == "cleared"):
        return False
    if state.sent[i] - state.structure.views[i].cleared_tokens < _LEAST_FREED:
        return False
    return not excluded or state.structure.tool_of(i) not in excluded


def _frees(state: State, stop: int, least: int) -> bool:
    """True when clearing everything before position `stop` frees at least `least` tokens."""
    excluded = state.policy.excluded
    for position in range(state.clearing.considered, stop):
        if least <= 0:
            break
        i = state.clearing.results[position]
        if _is_clearable(state, i, excluded):
            least -= state.sent[i] - state.structure.views[i].cleared_tokens
    return least <= 0


def _clear_inputs(state: State, result: int) -> None:
    """Where the request asks for it, clear the arguments of the call together with its result."""
    asked = state.policy.clear_inputs
    call = state.structure.caller_of[result]
    if not asked or call in state.edits or not state.structure.views[call].call_tokens:
        return
    if asked is True or (isinstance(asked, tuple) and state.structure.tool_of(result) in asked):
        tokens = state.measure(call, "inputs_cleared", 0)
        if tokens < state.sent[call]:
            state.edit(call, "inputs_cleared", tokens, "arguments of a cleared result")
