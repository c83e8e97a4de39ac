"""The stages of shaping. Each takes the replay's state at a boundary and does as much as is needed, no more; their
order stands in `plan.STAGES`. A stage is any callable of this signature: `(State) -> None`.
"""

from __future__ import annotations

from collections.abc import Callable

from proxy.context.edits import Segment, Stage
from proxy.context.replay import State
from proxy.context.turns import SYSTEM_ROLES
from proxy.context.views import MESSAGE_OVERHEAD

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
            state.edit(i, "truncated", state.measure(i, "truncated", limit), "longer than max_message_chars", limit)
    state.uncut = waiting


# -- clearing ----------------------------------------------------------------------------------------------------


def clear(state: State) -> None:
    """Clear old tool results in batches, oldest first, down to the target; the newest are protected. A request
    that asked for clearing by `context_management` gets all of them cleared, as that vocabulary has it."""
    stop, policy = _protected_from(state), state.policy
    due = state.size > state.clear_trigger or policy.trigger_tool_uses is not None
    if not due or _gain(state, stop) < policy.clear_at_least:
        return
    excluded, size = policy.excluded, policy.shaping.clear_batch
    while state.size > state.target or policy.managed:
        batch, position = _batch(state, stop, size, excluded)
        if not batch or (len(batch) < size and not (state.over or policy.managed)):
            return  # an incomplete batch waits unless it is needed to fit
        for i in batch:
            state.edit(i, "cleared", state.views[i].cleared, "old tool result")
            _clear_inputs(state, i)
        state.cleared = position


def _protected_from(state: State) -> int:
    """Position in `state.results` of the first protected one: the newest that together fit `keep_share` of the
    budget (or the number the request asked to keep), and always the newest."""
    results, keep = state.results, state.policy.keep_tool_uses
    if keep is not None:
        return max(state.cleared, len(results) - max(keep, 0))
    room = state.budget * state.policy.shaping.keep_share
    position = len(results) - 1
    while position > state.cleared:
        room -= state.sent[results[position]]
        if room < state.sent[results[position - 1]]:
            break
        position -= 1
    return max(position, state.cleared)


def _batch(state: State, stop: int, size: int, excluded: frozenset[str]) -> tuple[list[int], int]:
    """The next results to clear, and the position after them."""
    batch: list[int] = []
    position = state.cleared
    pinned = {state.unit_of[i] for i in state.marked}
    while position < stop and len(batch) < size:
        i = state.results[position]
        position += 1
        if _clearable(state, i, excluded) and state.unit_of[i] not in pinned:
            batch.append(i)
    return batch, position


def _clearable(state: State, i: int, excluded: frozenset[str]) -> bool:
    if state.gone[i] or state.sent[i] - state.views[i].cleared < _LEAST_GAIN:
        return False
    return not excluded or state.tool_of(i) not in excluded


def _gain(state: State, stop: int) -> int:
    """Tokens that clearing everything unprotected would free."""
    if not state.policy.clear_at_least:
        return 0
    waiting = (state.results[p] for p in range(state.cleared, stop))
    return sum(max(0, state.sent[i] - state.views[i].cleared) for i in waiting if not state.gone[i])


def _clear_inputs(state: State, result: int) -> None:
    """Where the request asks for it, the call's arguments go with its result."""
    wanted = state.policy.clear_inputs
    call = state.units[state.unit_of[result]].start
    if not wanted or call in state.edits or not state.views[call].call_tokens:
        return
    if wanted is True or (isinstance(wanted, tuple) and state.tool_of(result) in wanted):
        state.edit(call, "inputs_cleared", state.measure(call, "inputs_cleared", 0), "arguments of a cleared result")


# -- the frontier ------------------------------------------------------------------------------------------------


def summarize(state: State) -> None:
    """Advance the frontier over whole segments; one summary will stand for all of them."""
    if not state.policy.compaction:
        return
    pins, done = state.pins(), _enough(state)
    limit = state.end - state.policy.shaping.keep_recent
    while not done() and (segment := next_segment(state, limit)) is not None:
        state.mark_gap(state.policy.summary_tokens + MESSAGE_OVERHEAD)
        for u in range(state.unit_of[segment.start], state.unit_of[segment.stop - 1] + 1):
            _pass(state, u, pins, "summarized", "part of the summary")
        state.summarized += 1
        state.frontier = max(state.frontier, state.unit_of[segment.stop - 1] + 1)
    _release(state, pins, "summarized")


def next_segment(state: State, limit: int) -> Segment | None:
    """The first segment after those summarised, if all of it lies before message `limit`.

    Segments are cut from the start of the history on a size grid, by what the messages were before any edit, so
    they do not depend on when the overflow happens.
    """
    if state.summarized < len(state.segments):
        segment = state.segments[state.summarized]
        return segment if segment.stop <= limit else None
    grid = state.budget * state.policy.shaping.segment_share
    u = state.unit_of[state.segments[-1].stop - 1] + 1 if state.segments else state.home
    start, size = u, 0
    while u < len(state.units) and state.units[u].stop <= limit:
        size += sum(state.views[i].tokens for i in range(state.units[u].start, state.units[u].stop))
        u += 1
        if size >= grid:
            state.segments.append(Segment(state.units[start].start, state.units[u - 1].stop))
            return state.segments[-1]
    return None


def drop(state: State) -> None:
    """Advance the frontier over whole turns, oldest first, and inside a long turn over whole cycles."""
    keep = max(1, state.policy.shaping.keep_recent)
    _drop_before(state, state.unit_of[max(0, state.end - keep)], state.pins())


def _drop_before(state: State, last: int, pins: set[int]) -> None:
    """Advance to unit `last` at most: over a whole turn at once, or unit by unit where the whole turn would go far
    below the target (a sub-agent's conversation is one turn) or may not go as a whole."""
    done = _enough(state)
    stop, weight = state.frontier, 0
    while state.frontier < last and not done():
        if state.frontier == stop:
            stop, weight = _rest_of_turn(state, last)
        whole = stop < last and weight <= state.size - state.target // 2
        until = stop if whole else state.frontier + 1
        while state.frontier < until:
            weight -= state.unit_size(state.frontier)
            _pass(state, state.frontier, pins, "dropped", "oldest part of the conversation")
            state.frontier += 1
    _release(state, pins, "dropped")


def _rest_of_turn(state: State, last: int) -> tuple[int, int]:
    """Where the turn the frontier stands in ends, `last` at most, and the tokens up to there."""
    turn = state.units[state.frontier].turn
    stop, weight = state.frontier, 0
    while stop < last and state.units[stop].turn == turn:
        weight += state.unit_size(stop)
        stop += 1
    return stop, weight


def _enough(state: State) -> Callable[[], bool]:
    """Whether the frontier has moved far enough: down to the target in tokens, and in messages where counted."""
    shaping = state.policy.shaping
    limits = [n for n in (shaping.max_messages, shaping.summarize_after_messages) if n is not None]
    over = [n for n in limits if state.kept > n]
    messages = int(min(over) * shaping.target) if over else state.kept
    tokens = state.target if state.over else state.size
    return lambda: state.size <= tokens and state.kept <= messages


def _pass(state: State, u: int, pins: set[int], stage: Stage, reason: str) -> None:
    """Move the frontier over one unit. The question of a turn stays as long as a later part of its turn does, so
    that what is sent never begins with an assistant message."""
    unit = state.units[u]
    if unit.role in SYSTEM_ROLES or state.gone[unit.start]:
        return
    if unit.role == "user" and (u == 0 or state.units[u - 1].turn != unit.turn):
        _let_go(state, pins, stage, reason)
        state.held = u
    elif u not in pins:
        state.drop(u, stage, reason)


def _let_go(state: State, pins: set[int], stage: Stage, reason: str) -> None:
    if state.held is not None and state.held not in pins and not state.gone[state.units[state.held].start]:
        state.drop(state.held, stage, reason)
    state.held = None


def _release(state: State, pins: set[int], stage: Stage) -> None:
    """Let the held question go once the frontier has left its turn."""
    if state.held is None:
        return
    left = state.frontier >= len(state.units) or state.units[state.frontier].turn != state.units[state.held].turn
    if left:
        _let_go(state, pins, stage, "its turn was removed")


# -- the last of what can be done --------------------------------------------------------------------------------


def squeeze(state: State) -> None:
    """Share what is left among the tool results that must stay, head and tail kept; if that is not enough, among
    all other messages that may be changed."""
    if not state.over:
        return
    kept = [i for i in range(state.end) if not state.gone[i] and not state.irreducible(i)]
    _share(state, [i for i in kept if state.views[i].is_result])
    if state.over:
        _share(state, kept)


def _share(state: State, candidates: list[int]) -> None:
    """Water-filling: small messages keep their size, the large ones get equal shares of the rest."""
    goal = (state.budget + state.target) // 2
    room = goal - (state.size - sum(state.sent[i] for i in candidates))
    level = _level(sorted(state.sent[i] for i in candidates), room)
    for i in candidates:
        if state.sent[i] > level:
            _squeeze_to(state, i, level)


def _level(sizes: list[int], room: int) -> int:
    """The largest level at which the sizes, each cut to it, fit the room."""
    for k, size in enumerate(sizes):
        share = room // (len(sizes) - k)
        if size > share:
            return max(share, 0)
        room -= size
    return sizes[-1] if sizes else 0


def _squeeze_to(state: State, i: int, tokens: int) -> None:
    """Find the characters that bring message i to about `tokens`; the estimate is of what is really made."""
    view = state.views[i]
    size = view.text_tokens + view.call_tokens
    chars = max(view.chars, 4 * view.call_tokens)
    amount = max(_LEAST_TEXT, int(chars * max(0, tokens - (view.tokens - size)) / max(1, size)))
    for _ in range(4):
        measured = state.measure(i, "squeezed", amount)
        if measured <= tokens or amount <= _LEAST_TEXT:
            break
        amount = max(_LEAST_TEXT, int(amount * 0.97 * tokens / measured))
    if measured < state.sent[i]:
        state.edit(i, "squeezed", measured, "must stay, larger than the room left", amount)


def shed(state: State) -> None:
    """The last resort before a refusal: everything but system messages and the current question goes."""
    if not state.over:
        return
    current = None if state.question is None else state.unit_of[state.question]
    _drop_before(state, len(state.units), set() if current is None else {current})
    for u in range(state.home, len(state.units)):
        unit = state.units[u]
        if not state.over or unit.start >= state.end:
            return
        if u != current and unit.role not in SYSTEM_ROLES and not state.gone[unit.start]:
            state.drop(u, "dropped", "nothing else was left to give up")
