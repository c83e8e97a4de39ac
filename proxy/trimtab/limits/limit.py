"""What a model takes, as one value with its source: from what each source claims to one `Limit`.

A `Claim` is what one source states about a model. `resolve` takes them in order of precedence: the first that
states a window gives it, and every other figure comes from the first claim that states that one, so a table with
only a `budget` keeps the window that the upstream states.

An input cap counts only with the window it belongs to: it comes from the window's own source or one before it,
or its source states the same window. So the bundled cap of 272,000 for a window of 400,000 also caps a configured
400,000, and never a configured 1,050,000.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeVar

import msgspec

from trimtab.limits.settings import ModelSettings, Prices

T = TypeVar("T")

# Where a limit comes from, by precedence; a learned one lowers all others. Goes into a header and the log.
Source = Literal["configured", "environment", "discovered", "bundled", "default", "learned"]

DEFAULT_CONTEXT_SIZE = 128_000  # tokens, of a model that no source knows
DEFAULT_MAX_OUTPUT = 64_000


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """What a model takes, in tokens. `context_size` holds input and output together; `max_input_tokens` is a cap on
    the input below it, where the model has one; `budget` is the operator's own cap. `prices` are USD per million
    tokens. `detail` is for people: which table, name or field the window comes from.

    A limit that is a guess (the default, or what another provider serves under that name) is not `trusted`: it may
    shape a request, but a request is never refused because of it."""

    context_size: int
    max_output_tokens: int
    max_input_tokens: int | None = None
    budget: int | None = None
    source: Source = "default"
    detail: str = ""
    prices: Prices | None = None
    trusted: bool = True


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What one source states about a model, in tokens; None where it states nothing. Fields as in `Limit`."""

    source: Source
    detail: str = ""
    context_size: int | None = None
    max_output_tokens: int | None = None
    max_input_tokens: int | None = None
    budget: int | None = None
    prices: Prices | None = None
    trusted: bool = True


DEFAULT = Limit(
    context_size=DEFAULT_CONTEXT_SIZE,
    max_output_tokens=DEFAULT_MAX_OUTPUT,
    trusted=False,
    detail="unknown model: set context_size for it in [models]",
)


def claim_of(source: Source, detail: str, settings: ModelSettings) -> Claim:
    """What an operator's settings claim; `detail` names the place they are written in."""
    return Claim(source=source, detail=detail, **msgspec.structs.asdict(settings))


def resolve(claims: Sequence[Claim]) -> Limit:
    """The limit that `claims`, in order of precedence, amount to; DEFAULT where none states a window."""
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


def assumed_output(context_size: int) -> int:
    """The output to reserve, in tokens, where the window is known and the output cap is not: a quarter of the
    window, at most the default cap. (Half would leave a 32K model without an output cap only 16K of input.)"""
    return max(1, min(DEFAULT_MAX_OUTPUT, context_size // 4))


def _input_cap(claims: Sequence[Claim], first: int | None, size: int) -> int | None:
    above = len(claims) if first is None else first + 1
    belonging = [*claims[:above], *(claim for claim in claims[above:] if claim.context_size == size)]
    cap = _first(claim.max_input_tokens for claim in belonging)
    return cap if cap is not None and cap < size else None


def _first(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)
