"""Roles that alternate: what strict chat templates demand (Mistral's and Gemma's raise an error otherwise, and so do
those that take a system message at the start only). For such an upstream (`Policy.strict_roles`) shaping must not put
two user messages side by side, unless they already were in the history.

Two rules see to that. The plain answer before a user message that stays is kept too. And the note or summary joins the
text of a user message beside it, if there is one, but never that of the current question. When the next question comes,
the note moves into the message that was the question: one break of the prefix that other upstreams do not have.
"""

from __future__ import annotations

from bisect import bisect_left

from trimtab.context.edits import Gap, Stage
from trimtab.context.plan.state import State


def is_answer_to_keep(state: State, u: int) -> bool:
    """True when unit u, which the frontier passes, is the answer between two user messages that stay so far."""
    user = state.answers.user_after.get(u)
    if user is None or user >= state.units_walked or state.unit_gone(user) or user in state.compaction.kept_answers:
        return False
    first = user_from(state, 0)
    return first is not None and first < u


def keep_answer(state: State, u: int) -> None:
    """Keep an answer as long as the user message after it stays."""
    state.compaction.kept_answers[state.answers.user_after[u]] = u


def drop_user(state: State, u: int, stage: Stage, reason: str) -> None:
    """Remove a user message, and where roles must alternate one of the answers before and after it. Before what is the
    first user message then, no answer stays, unless the note stands there."""
    state.drop(u, stage, reason)
    kept = state.compaction.kept_answers
    before, later = kept.pop(u, None) or _answer_before(state, u), user_from(state, u)
    if later is None or (later == user_from(state, 0) and not state.compaction.gap_tokens):
        _drop_answer(state, before)
        _drop_answer(state, None if later is None else kept.pop(later, None))
    elif before is not None:
        after = kept.get(later) or _answer_before(state, later)
        if after is not None and before not in state.compaction.kept_pins:
            _drop_answer(state, before)
        else:
            _drop_answer(state, kept.get(later))
            kept[later] = before


def drop_kept_answers(state: State) -> None:
    """Drop all answers that were kept."""
    for u in [*state.compaction.kept_answers]:
        _drop_answer(state, state.compaction.kept_answers.pop(u))


def user_from(state: State, u: int) -> int | None:
    """The unit of the first user message at or after unit u that has been walked and not removed. Places that were
    found removed are skipped the next time."""
    unit_of, users, skipped = state.structure.unit_of, state.users, state.answers.skipped
    first = at = bisect_left(users, u, key=unit_of.__getitem__)
    while at < len(users) and state.gone[users[at]]:
        at = skipped.get(at, at + 1)
    while first < at:
        skipped[first], first = at, skipped.get(first, first + 1)
    return unit_of[users[at]] if at < len(users) else None


def _answer_before(state: State, user: int) -> int | None:
    """The answer before a user message, if it has not been removed."""
    answer = state.answers.before.get(user)
    return None if answer is None or state.unit_gone(answer) else answer


def _drop_answer(state: State, u: int | None) -> None:
    if u is not None and u not in state.compaction.kept_pins:
        state.drop(u, "dropped", "the question after it was removed")


def gap(state: State) -> Gap | None:
    """Where the note or the summary stands: after the leading system messages and the task."""
    tokens = state.compaction.gap_tokens
    if not tokens:
        return None
    first = state.structure.units[state.structure.first_unit].start
    task = state.task if first in state.structure.task else []  # else a greeting came before it
    index = state.structure.units[state.structure.unit_of[task[-1]]].stop if task else first
    beside = task[-1] if task else next((i for i in state.remaining() if i >= index), None)
    if not state.policy.strict_roles or beside is None or state.structure.views[beside].role != "user":
        return Gap(index, tokens)
    if beside != state.question and state.structure.views[beside].shape in ("text", "parts"):
        return Gap(index, tokens, into=beside)
    # Beside the question: the note is left out. A summary after it has the role of the assistant, one before it is
    # answered.
    return Gap(index, tokens, note=False, role="assistant" if task else None, answered=not task)
