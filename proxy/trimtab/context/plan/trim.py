"""Cutting the context inside a user message, so that its goal stays word for word (see `apply.goal`). It is the only
edit that the current question can get.

A guess may be wrong: a prompt may begin with what it asks for, and end with a long text. Then the cut would take the
goal, and the text would still be too long. So guessed context is cut only where the rest fits.
"""

from __future__ import annotations

import msgspec

from trimtab.context.apply.goal import context_chars
from trimtab.context.plan.state import State

LEAST_TEXT = 200
"""Shortened texts shorter than this tell a model nothing (characters)."""

_TRIES = 4


class Context(msgspec.Struct, frozen=True):
    """The context in a message, in characters."""

    chars: int
    guessed: bool


def context_in(state: State, i: int) -> Context | None:
    """The context in message i; None where it is no user message, or has none that may be cut."""
    view = state.structure.views[i]
    if view.role != "user" or view.shape not in ("text", "parts"):
        return None
    may_guess = state.policy.shaping.cut_context == "guessed"
    for guess in (False, True) if may_guess else (False,):
        key = (view.digest, "context", int(guess))
        chars: int | None = state.memo.get(key)
        if chars is None:
            chars = context_chars(state.structure.raws[i], guess=guess)
            state.memo.put(key, chars)
        if chars:
            return Context(chars, guess)
    return None


def trim_to_chars(state: State, i: int, chars: int) -> bool:
    """Cut the context in message i so that all of its text has at most `chars` characters; False where that is not
    enough. Marked context of the current question is cut all the same."""
    context = context_in(state, i)
    if context is None:
        return False
    room = chars - (state.structure.views[i].chars - context.chars)
    if room > 0 or (i == state.question and not context.guessed):
        _trim(state, i, max(0, room), "longer than max_message_chars: its context is cut")
    return room > 0


def trim_to_tokens(state: State, i: int, tokens: int) -> bool:
    """Cut the context in message i to bring it to about `tokens`; False where it has no context, or where that does not
    bring it there. The current question is cut as far as it can be all the same."""
    context = context_in(state, i)
    if context is None or context.chars <= LEAST_TEXT:
        return False
    whole, goal = state.structure.views[i].tokens, state.measure(i, "trimmed", LEAST_TEXT)
    is_question = i == state.question
    if goal > (state.budget - state.fixed if is_question else tokens) and (context.guessed or not is_question):
        return False
    amount, least = context.chars, state.measure(i, "trimmed", 0)
    measured = whole
    for _ in range(_TRIES):
        if measured <= tokens or amount <= LEAST_TEXT:
            break
        share = (tokens - least) / max(1, measured - least)
        amount = max(LEAST_TEXT, min(amount - 1, int(amount * share * (1.0 if measured == whole else 0.97))))
        measured = state.measure(i, "trimmed", amount)
    _trim(state, i, amount, "larger than the room left: its context is cut")
    return measured <= tokens


def _trim(state: State, i: int, amount: int, reason: str) -> None:
    measured = state.measure(i, "trimmed", amount)
    if measured < state.sent[i]:
        state.edit(i, "trimmed", measured, reason, amount)
