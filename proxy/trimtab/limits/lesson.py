"""One lesson: what an overflow teaches about a model's limit, as a value. `lessons` keeps them.

A reported number is believed when it is at least LEAST and below the limit known so far: a lesson only lowers.
"""

from __future__ import annotations

import msgspec

from trimtab.limits.limit import Limit

LEAST = 256  # tokens; one server reported "maximum context length is 3 tokens"


class Lesson(msgspec.Struct, frozen=True):
    """The largest window, and the largest input, that an upstream takes, in tokens; None where it is not known.
    `provisional`: the upstream named no number."""

    window: int | None = None
    input: int | None = None
    provisional: bool = False


def lesson_of(limit: Limit, reported: int) -> Lesson | None:
    """What a refusal that names `reported` tokens teaches about a model with `limit`, or None.

    A number that equals the window less the output cap is a cap on the input, not a smaller window.
    """
    if reported < LEAST:
        return None
    if reported in (limit.max_input_tokens, limit.context_size - limit.max_output_tokens):
        known = limit.max_input_tokens or limit.context_size
        return Lesson(input=reported) if reported < known else None
    return Lesson(window=reported) if reported < limit.context_size else None


def lowest(one: Lesson, other: Lesson) -> Lesson:
    """The lower window and the lower input of two lessons."""
    provisional = other.provisional if bound(other) < bound(one) else one.provisional
    return Lesson(_least(one.window, other.window), _least(one.input, other.input), provisional)


def disproved(lesson: Lesson, accepted: int) -> bool:
    """True when the upstream has accepted a prompt of `accepted` tokens that is larger than the lesson allows."""
    return accepted > bound(lesson)


def lowered(limit: Limit, lesson: Lesson) -> Limit:
    """`limit` with the lesson applied; the same object where the lesson is not lower."""
    window = _least(limit.context_size, lesson.window) or limit.context_size
    most = _least(limit.max_input_tokens, lesson.input)
    if most is not None and most >= window:
        most = None
    if (window, most) == (limit.context_size, limit.max_input_tokens):
        return limit
    return msgspec.structs.replace(
        limit,
        context_size=window,
        max_output_tokens=min(limit.max_output_tokens, window),
        max_input_tokens=most,
        source="learned",
        detail=f"from an overflow; {limit.source} {limit.context_size} ({limit.detail})",
        trusted=not lesson.provisional,
    )


def _least(one: int | None, other: int | None) -> int | None:
    return min((n for n in (one, other) if n is not None), default=None)


def bound(lesson: Lesson) -> float:
    """The largest input that a lesson allows."""
    return min((n for n in (lesson.window, lesson.input) if n is not None), default=float("inf"))
