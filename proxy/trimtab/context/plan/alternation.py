"""Roles that alternate: what strict chat templates demand (Mistral's and Gemma's raise an error otherwise, and so do
those that take a system message at the start only). For such an upstream (`Policy.strict_roles`) shaping must not put
two user messages side by side, unless they already were in the history.

Two rules see to that. The plain answer before a user message that stays is kept too. And the note or summary joins the
text of a user message beside it, if there is one, but never that of the current question. When the next question comes,
the note moves into the message that was the question: one break of the prefix that other upstreams do not have.
"""

from __future__ import annotations

from trimtab.context.edits import Gap
from trimtab.context.plan.state import State


def is_answer_to_keep(state: State, u: int) -> bool:
    """True when unit u, which the frontier passes, is the answer between the task and the user message after u."""
    units = state.structure.units
    if not state.policy.strict_roles or u + 1 >= state.units_walked or units[u + 1].role != "user":
        return False
    view = state.structure.views[units[u].start]
    return view.role == "assistant" and not view.calls and bool(state.task)


def drop_kept_answers(state: State, question: int | None = None) -> None:
    """Drop the answer that was kept for a question which has been removed (None: all kept answers)."""
    kept = state.compaction.kept_answers
    for u in [*kept] if question is None else [question]:
        if (answer := kept.pop(u, None)) is not None:
            state.drop(answer, "dropped", "the question after it was removed")


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
    # Beside the question: the note is left out, and a summary after it has the role of the assistant.
    return Gap(index, tokens, note=False, role="assistant" if task else None)
