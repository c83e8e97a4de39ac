"""From claims to a limit: the first source that states a window gives it, and every other figure comes from
the first that states that one, so a table with nothing but a `budget` keeps the window the upstream states.

An input cap counts only if it belongs to the window in use: it stands at the window's source or above, or
its own source states the same window. So the bundled 272,000 for a 400,000 window also caps a configured
400,000, and never a configured 1,050,000.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from trimtab.limits.claims import Claim
from trimtab.limits.limit import DEFAULT, Limit, assumed_output

T = TypeVar("T")


def resolve(claims: Sequence[Claim]) -> Limit:
    """The limit that `claims`, in order of precedence, amount to; the default where none states a window."""
    first = next((i for i, claim in enumerate(claims) if claim.context_size is not None), None)
    window = None if first is None else claims[first]
    size = DEFAULT.context_size if window is None or window.context_size is None else window.context_size
    output = _first(claim.max_output_tokens for claim in claims)
    if output is None:
        output = DEFAULT.max_output_tokens if window is None else assumed_output(size)
    return Limit(
        context_size=size,
        max_output_tokens=min(output, size),
        max_input_tokens=_input_cap(claims, first, size),
        budget=_first(claim.budget for claim in claims),
        source=window.source if window else DEFAULT.source,
        detail=window.detail if window else DEFAULT.detail,
        trusted=window.trusted if window else DEFAULT.trusted,
        prices=_first(claim.prices for claim in claims),
    )


def _input_cap(claims: Sequence[Claim], first: int | None, size: int) -> int | None:
    above = len(claims) if first is None else first + 1
    belonging = [*claims[:above], *(claim for claim in claims[above:] if claim.context_size == size)]
    cap = _first(claim.max_input_tokens for claim in belonging)
    return cap if cap is not None and cap < size else None


def _first(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)
