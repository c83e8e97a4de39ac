"""What a model takes, as one value with its origin.

`source` is one of SOURCES and goes into a header and a metric; `detail` is for people: which table, which
name, which field. A limit that is a guess (the default, or what some other provider serves under that name)
is not `trusted`: it may shape a request, but an estimate against it is never a reason to refuse one.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from trimtab.limits.settings import Prices

Source = Literal["configured", "environment", "discovered", "bundled", "default", "learned"]
SOURCES: tuple[Source, ...] = ("configured", "environment", "discovered", "bundled", "default", "learned")

DEFAULT_CONTEXT_SIZE = 128_000  # tokens, where nobody says anything
DEFAULT_MAX_OUTPUT = 64_000


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens. `context_size` holds input and output together; `max_input_tokens` is a cap below it, where the
    model has one; `budget` is the operator's own. `prices` are USD per million tokens. `trusted`: may an
    estimate against this limit refuse a request?"""

    context_size: int
    max_output_tokens: int
    max_input_tokens: int | None = None
    budget: int | None = None
    source: Source = "default"
    detail: str = ""
    prices: Prices | None = None
    trusted: bool = True


DEFAULT = Limit(
    context_size=DEFAULT_CONTEXT_SIZE,
    max_output_tokens=DEFAULT_MAX_OUTPUT,
    trusted=False,
    detail="nothing is known of this model: set context_size for it",
)


def assumed_output(context_size: int) -> int:
    """The output to reserve, in tokens, where the window is known and the output cap is not: a quarter of the
    window, at most the default cap. (Half would leave a 32K model without a stated cap 16K of input.)"""
    return max(1, min(DEFAULT_MAX_OUTPUT, context_size // 4))
