"""The stages that shorten text: truncate what is oversized, squeeze what must stay but is too large.

A stage takes the replay's state at a boundary and does as much as is needed, no more; the order of the stages stands
in `plan.STAGES`.
"""

from __future__ import annotations

from trimtab.context.apply.cut import fair_share
from trimtab.context.plan.pins import pinned_units
from trimtab.context.plan.state import State
from trimtab.context.plan.trim import LEAST_TEXT, trim_to_chars, trim_to_tokens


def truncate(state: State) -> None:
    """Cut every oversized message, but for system messages and the goal of the current question."""
    if not state.over and state.policy.shaping.truncate != "always":
        return
    limit = state.policy.shaping.max_message_chars
    waiting = []
    for i in state.oversized:
        edit = state.edits.get(i)
        may_be_cut = not state.gone[i] and (edit is None or edit.stage == "trimmed")
        if may_be_cut and trim_to_chars(state, i, limit):
            continue
        if state.is_untouchable(i):
            waiting.append(i)
        elif may_be_cut:
            tokens = state.measure(i, "truncated", limit)
            if tokens < state.sent[i]:
                state.edit(i, "truncated", tokens, "longer than max_message_chars", limit)
    state.oversized = waiting


def squeeze(state: State) -> None:
    """Share what is left among the tool results that must stay, head and tail kept; if that is not enough, among
    all other messages that may be changed: then the context in the question is cut, then the pinned ones, and the task
    last."""
    if not state.over:
        return
    pins, structure = pinned_units(state), state.structure
    kept = [i for i in state.remaining() if not state.is_untouchable(i) and not _is_cleared(state, i)]
    loose = [i for i in kept if structure.unit_of[i] not in pins]
    task = set(state.task)
    beside_task = [i for i in kept if i not in task]
    for candidates in ([i for i in loose if structure.views[i].is_result], loose):
        if state.over and candidates:
            _share(state, candidates)
    if state.over and state.question is not None:
        trim_to_tokens(state, state.question, state.budget - (state.size - state.sent[state.question]))
    for candidates in (beside_task, kept):
        if state.over and candidates:
            _share(state, candidates)


def _is_cleared(state: State, i: int) -> bool:
    """Cleared messages stay as they are: to squeeze one would bring its text back."""
    return i in state.edits and state.edits[i].stage in ("cleared", "inputs_cleared")


def _share(state: State, candidates: list[int]) -> None:
    """Water-filling: small messages keep their size, the large ones get equal shares of the rest."""
    goal = (state.budget + state.target) // 2
    room = goal - (state.size - sum(state.sent[i] for i in candidates))
    most = fair_share(sorted(state.sent[i] for i in candidates), room)
    for i in candidates:
        if state.sent[i] > most:
            _squeeze_to(state, i, most)


def _squeeze_to(state: State, i: int, tokens: int) -> None:
    """Find the characters that bring message i to about `tokens`; the estimate is of what is really made."""
    if trim_to_tokens(state, i, tokens):
        return
    view = state.structure.views[i]
    size = view.text_tokens + view.call_tokens
    if not size:
        return
    chars = max(view.chars, 4 * view.call_tokens)
    amount = max(LEAST_TEXT, int(chars * max(0, tokens - (view.tokens - size)) / size))
    measured = state.measure(i, "squeezed", amount)
    for _ in range(3):
        if measured <= tokens or amount <= LEAST_TEXT:
            break
        amount = max(LEAST_TEXT, int(amount * 0.97 * tokens / measured))
        measured = state.measure(i, "squeezed", amount)
    if measured < state.sent[i]:
        state.edit(i, "squeezed", measured, "must stay, larger than the room left", amount)
