"""How many input tokens a request may have, and when its `max_tokens` is lowered instead.

`usable = min(context_size - reserved, max_input, budget)`. The reserve is the request's own `max_tokens`
rounded up to a power of two, so that small changes between steps do not move the plan, and at most the
model's own output cap. It never takes more than half of the window: tables say "output 262,134 of 262,144",
and requests ask for 20,000 tokens of an 8K model; what to do about that the upstream decides. The floor
keeps small windows usable; an operator's `budget` is honoured down to what was written.
"""

from __future__ import annotations

import msgspec

from trimtab.limits.limit import Limit

FLOOR = 4_000  # tokens of input that are usable at least,
FLOOR_SHARE = 0.9  # but never more than this share of the window
LOWEST_OUTPUT = 1_024  # an answer cut at fewer tokens is worse than an older result cleared,
LOWEST_SHARE = 16  # in a small window a sixteenth of it, of a small request half of what it asked for
_MARGIN_SHARE = 50  # 2 % of the input: the precision of a calibrated estimate
_MARGIN_LEAST = 64


class Budget(msgspec.Struct, frozen=True):
    """Tokens: `usable` for the input, `reserved` for the output, of a window of `context_size`."""

    usable: int
    reserved: int
    context_size: int


def usable(limit: Limit, max_tokens: int | None = None) -> Budget:
    """The budget of a request that asks for `max_tokens` of output (None: it does not say).

    `max_tokens` is the larger of `max_tokens` and `max_completion_tokens` where both are present."""
    reserved = _reserve(limit, max_tokens)
    floor = min(FLOOR, int(FLOOR_SHARE * limit.context_size))
    room = max(limit.context_size - reserved, floor, 1)
    return Budget(_capped(limit, room), reserved, limit.context_size)


def widest(limit: Limit, max_tokens: int | None = None) -> Budget:
    """The budget that leaves the output no more than is worth having: for a request that would be refused otherwise."""
    lowest = _lowest(limit, max_tokens if max_tokens and max_tokens > 0 else limit.max_output_tokens)
    reserved = min(lowest, limit.context_size // 2)
    return Budget(max(1, _capped(limit, limit.context_size - reserved)), reserved, limit.context_size)


def _capped(limit: Limit, room: int) -> int:
    """No more than the model's input and the operator's budget."""
    for cap in (limit.max_input_tokens, limit.budget):
        if cap is not None and cap < room:
            room = cap
    return room


def _reserve(limit: Limit, max_tokens: int | None) -> int:
    wanted = limit.max_output_tokens
    if max_tokens is not None and max_tokens > 0:
        wanted = min(wanted, next_power_of_two(max_tokens))
    return min(wanted, limit.context_size // 2)


def next_power_of_two(n: int) -> int:
    """The least power of two that is at least `n`; 1 for anything below."""
    return 1 << max(0, n - 1).bit_length()


def lowered_max_tokens(limit: Limit, max_tokens: int | None, input_tokens: int) -> int | None:
    """The `max_tokens` to send instead, or None to leave it as it is.

    Lowered where the input (`input_tokens`, as estimated after shaping) fits the window and input plus output
    does not. Left alone: where enough is free; where it alone fills the window (the upstream's own answer is
    clearer than ours); where what is left is too little for an answer (compact instead); and where the window
    is a guess.
    """
    if max_tokens is None or not limit.trusted or max_tokens >= limit.context_size:
        return None
    if input_tokens + max_tokens <= limit.context_size:
        return None
    room = limit.context_size - input_tokens - max(_MARGIN_LEAST, input_tokens // _MARGIN_SHARE)
    return room if room >= _lowest(limit, max_tokens) else None


def _lowest(limit: Limit, max_tokens: int) -> int:
    return max(1, min(LOWEST_OUTPUT, limit.context_size // LOWEST_SHARE, max_tokens // 2))
