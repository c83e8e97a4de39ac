"""Limits learned from what upstreams refuse: what is served beats what is written.

Per (upstream, model), lowering only, for a time. A number is believed when it is in a sane range, below what
was believed before, and not below a request that the upstream has just taken; a later request larger than a
learned limit disproves it. Weak signs (a stream cut near the window) never teach anything: only a number in
an explicit refusal does.
"""

from __future__ import annotations

import msgspec

from trimtab.limits.limit import Limit

LEAST = 256  # tokens; one server reported "maximum context length is 3 tokens"


class Learned(msgspec.Struct, frozen=True):
    """Tokens: the largest window, or the largest input, that an upstream said it takes; None: not said."""

    window: int | None = None
    input: int | None = None


def learn(limit: Limit, taken: int, reported: int, *, input_only: bool = False) -> Learned | None:
    """What a refusal that names `reported` tokens teaches about a model with `limit`, or None if nothing.

    `taken` is the largest prompt the upstream has accepted. A number that is the window less the output cap
    is the input's share of it, not a smaller window.
    """
    if reported < LEAST or reported < taken:
        return None
    if input_only or reported in (limit.max_input_tokens, limit.context_size - limit.max_output_tokens):
        known = limit.max_input_tokens or limit.context_size
        return Learned(input=reported) if reported < known else None
    return Learned(window=reported) if reported < limit.context_size else None


def both(one: Learned, other: Learned) -> Learned:
    """The lower of each."""
    return Learned(_least(one.window, other.window), _least(one.input, other.input))


def disproved(learned: Learned, taken: int) -> bool:
    """Has the upstream taken a prompt of `taken` tokens that it could not have?"""
    least = _least(learned.window, learned.input)
    return least is not None and taken > least


def lowered(limit: Limit, learned: Learned) -> Limit:
    """`limit` as the upstream serves it; the same object where nothing is lower."""
    window = _least(limit.context_size, learned.window) or limit.context_size
    most = _least(limit.max_input_tokens, learned.input)
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
        trusted=True,
    )


def _least(one: int | None, other: int | None) -> int | None:
    return min((n for n in (one, other) if n is not None), default=None)
