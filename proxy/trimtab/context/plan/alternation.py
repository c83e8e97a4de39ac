"""Roles that alternate: what strict chat templates demand (Mistral's and Gemma's raise an error otherwise, and so do
those that take a system message at the start only). For such an upstream (`Policy.strict_roles`) shaping must not put
two user messages side by side that were not so before.

Two things see to it. The plain answer before a user message that stays is kept as the bridge to it. And the note or
summary is no message of its own where it can be said in a user message beside it; never in the current question. When
another question comes it is said there after all: one break of the prefix that other upstreams do not have.
"""

from __future__ import annotations

from trimtab.context.edits import Gap
from trimtab.context.plan.replay import State


def bridges(state: State, u: int) -> bool:
    """Whether unit u, which the frontier passes, is the answer between the task and the user message after u."""
    if not state.policy.strict_roles or u + 1 >= state.walked or state.units[u + 1].role != "user":
        return False
    view = state.views[state.units[u].start]
    return view.role == "assistant" and not view.calls and _task_stands(state)


def unbridged(state: State, question: int | None = None) -> None:
    """Drop the answer that was kept for a question which has gone (None: all of them)."""
    for u in [*state.bridges] if question is None else [question]:
        if (answer := state.bridges.pop(u, None)) is not None:
            state.drop(answer, "dropped", "the question after it was removed")


def gap(state: State) -> Gap | None:
    """Where the note or the summary stands: after the leading system messages and the task."""
    if not state.gap_tokens:
        return None
    first = state.units[state.home]
    after_task = _task_stands(state)
    index = first.stop if after_task else first.start
    beside = first.start if after_task else next((i for i in state.live() if i >= index), None)
    if not state.policy.strict_roles or beside is None or state.views[beside].role != "user":
        return Gap(index, state.gap_tokens)
    if beside != state.question and state.views[beside].shape in ("text", "parts"):
        return Gap(index, state.gap_tokens, into=beside)
    # Beside the question: the note is left out, and a summary after it is said by the assistant.
    return Gap(index, state.gap_tokens, note=False, role="assistant" if after_task else None)


def _task_stands(state: State) -> bool:
    first = state.units[state.home]
    return first.role == "user" and not state.gone[first.start]
