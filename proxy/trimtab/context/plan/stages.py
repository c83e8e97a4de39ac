"""The stages that change messages and take none out: truncate, clear, squeeze (`frontier` has those that do). Each
takes the replay's state at a boundary and does as much as is needed, no more; their order stands in `plan.STAGES`.
A stage is any callable of this signature: `(State) -> None`.
"""

from __future__ import annotations

from trimtab.context.apply.cut import level
from trimtab.context.plan.replay import State

# A result must win at least this many tokens by clearing: a prefix break for less costs more than it saves.
_LEAST_GAIN = 32
# Squeezed texts shorter than this tell a model nothing (characters).
_LEAST_TEXT = 200


def truncate(state: State) -> None:
    """Cut every oversized message, but for system messages and the current question."""
    if not state.over and state.policy.shaping.truncate != "always":
        return
    limit = state.policy.shaping.max_message_chars
    waiting = []
    for i in state.uncut:
        if state.irreducible(i):
            waiting.append(i)
        elif not state.gone[i] and state.edits.get(i) is None:
            tokens = state.measure(i, "truncated", limit)
            if tokens < state.sent[i]:
                state.edit(i, "truncated", tokens, "longer than max_message_chars", limit)
    state.uncut = waiting


# -- clearing ----------------------------------------------------------------------------------------------------


def clear(state: State) -> None:
    """Clear old tool results in batches, oldest first, down to the target; the newest are protected. A request
    that asked for clearing by `context_management` gets all of them cleared, as that vocabulary has it."""
    policy = state.policy
    uses = policy.trigger_tool_uses
    if state.size <= state.clear_trigger and (uses is None or state.uncleared <= uses):
        return
    stop = _protected_from(state)
    if not _wins(state, stop, policy.clear_at_least):
        return
    size = policy.shaping.clear_batch
    while state.size > state.target or policy.managed:
        batch, first, position = _batch(state, stop, size)
        state.cleared = first  # what cannot be cleared is not looked at again
        if not batch or (len(batch) < size and not (state.over or policy.managed)):
            return  # an incomplete batch waits unless it is needed to fit
        for i in batch:
            state.edit(i, "cleared", state.views[i].cleared, "old tool result")
            _clear_inputs(state, i)
        state.cleared = position


def _protected_from(state: State) -> int:
    """Position in `state.results` of the first protected one: the newest that together fit `keep_share` of the
    budget (or the number the request asked to keep), and always the newest and what the model has not seen yet."""
    results, keep = state.results, state.policy.keep_tool_uses
    while state.cleared < len(results) and state.gone[results[state.cleared]]:
        state.cleared += 1
    if keep is not None:
        return max(state.cleared, min(state.seen, len(results) - max(keep, 0)))
    room = state.budget * state.policy.shaping.keep_share
    position = len(results)
    while position > state.cleared and room >= state.sent[results[position - 1]]:
        position -= 1
        room -= state.sent[results[position]]
    return max(state.cleared, min(position, state.spared))


def _batch(state: State, stop: int, size: int) -> tuple[list[int], int, int]:
    """The next results to clear, the position of the first of them, and the position after the last."""
    batch: list[int] = []
    first = position = state.cleared
    excluded, pinned = state.policy.excluded, frozenset(state.marked)
    while position < stop and len(batch) < size:
        i = state.results[position]
        if _clearable(state, i, excluded) and state.unit_of[i] not in pinned:
            batch.append(i)
        position += 1
        if not batch:
            first = position
    return batch, first, position


def _clearable(state: State, i: int, excluded: frozenset[str]) -> bool:
    if state.gone[i] or state.sent[i] - state.views[i].cleared < _LEAST_GAIN:
        return False
    return not excluded or state.tool_of(i) not in excluded


def _wins(state: State, stop: int, least: int) -> bool:
    """Whether clearing everything unprotected frees at least `least` tokens."""
    excluded = state.policy.excluded
    for p in range(state.cleared, stop):
        if least <= 0:
            break
        i = state.results[p]
        if _clearable(state, i, excluded):
            least -= state.sent[i] - state.views[i].cleared
    return least <= 0


def _clear_inputs(state: State, result: int) -> None:
    """Where the request asks for it, the call's arguments go with its result."""
    wanted = state.policy.clear_inputs
    call = state.home_of[result]
    if not wanted or call in state.edits or not state.views[call].call_tokens:
        return
    if wanted is True or (isinstance(wanted, tuple) and state.tool_of(result) in wanted):
        tokens = state.measure(call, "inputs_cleared", 0)
        if tokens < state.sent[call]:
            state.edit(call, "inputs_cleared", tokens, "arguments of a cleared result")


# -- squeezing ---------------------------------------------------------------------------------------------------


def squeeze(state: State) -> None:
    """Share what is left among the tool results that must stay, head and tail kept; if that is not enough, among
    all other messages that may be changed, the pinned ones last."""
    if not state.over:
        return
    pins = state.pins()
    kept = [i for i in state.live() if not state.irreducible(i) and not _cleared(state, i)]
    loose = [i for i in kept if state.unit_of[i] not in pins]
    for candidates in ([i for i in loose if state.views[i].is_result], loose, kept):
        if state.over:
            _share(state, candidates)


def _cleared(state: State, i: int) -> bool:
    """Cleared messages stay as they are: squeezing them anew would bring their text back."""
    return i in state.edits and state.edits[i].stage in ("cleared", "inputs_cleared")


def _share(state: State, candidates: list[int]) -> None:
    """Water-filling: small messages keep their size, the large ones get equal shares of the rest."""
    goal = (state.budget + state.target) // 2
    room = goal - (state.size - sum(state.sent[i] for i in candidates))
    most = level(sorted(state.sent[i] for i in candidates), room)
    for i in candidates:
        if state.sent[i] > most:
            _squeeze_to(state, i, most)


def _squeeze_to(state: State, i: int, tokens: int) -> None:
    """Find the characters that bring message i to about `tokens`; the estimate is of what is really made."""
    view = state.views[i]
    size = view.text_tokens + view.call_tokens
    if not size:
        return
    chars = max(view.chars, 4 * view.call_tokens)
    amount = max(_LEAST_TEXT, int(chars * max(0, tokens - (view.tokens - size)) / size))
    measured = state.measure(i, "squeezed", amount)
    for _ in range(3):
        if measured <= tokens or amount <= _LEAST_TEXT:
            break
        amount = max(_LEAST_TEXT, int(amount * 0.97 * tokens / measured))
        measured = state.measure(i, "squeezed", amount)
    if measured < state.sent[i]:
        state.edit(i, "squeezed", measured, "must stay, larger than the room left", amount)
