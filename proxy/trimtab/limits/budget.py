"""The budget: how many input tokens a request may have, and when its `max_tokens` is lowered instead.

`usable = min(context_size - reserved, max_input_tokens, budget)`. The reserve is the request's own `max_tokens`,
rounded up to a power of two so that small changes between requests do not move the plan, and at most the model's
output cap. It is never more than half of the window: tables list "output 262,134 of 262,144", and clients request
20,000 tokens of an 8K model; the upstream decides about those. The floor keeps small windows usable; the operator's
`budget` may go below it.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from trimtab.limits.limit import Limit

FLOOR = 4_000  # tokens that are always usable for the input,
FLOOR_SHARE = 0.9  # but at most this share of the window
LOWEST_OUTPUT = 1_024  # tokens; an answer cut below this is worse than clearing an older result.
LOWEST_SHARE = 16  # In a small window: a sixteenth of it. For a small `max_tokens`: half of it
_MARGIN_SHARE = 50  # a fiftieth (2 %) of the input: the precision of a calibrated estimate
_MARGIN_LEAST = 64  # tokens


class Budget(msgspec.Struct, frozen=True, gc=False):
    """In tokens: `usable` for the input, `reserved` for the output, of a window of `context_size`. `most` is what the
    input may have at all: `usable` is below it where the request itself asked for less."""

    usable: int
    reserved: int
    context_size: int
    most: int

    def under(self, cap: int | None) -> Budget:
        """The same with at most `cap` usable tokens, as a profile or a request asks for. What it may have at
        all stays."""
        return self if cap is None or cap >= self.usable else msgspec.structs.replace(self, usable=max(1, cap))


@lru_cache(maxsize=1024)
def usable(limit: Limit, max_tokens: int | None = None) -> Budget:
    """The budget of a request for `max_tokens` of output; None where the request does not name it.

    Where both `max_tokens` and `max_completion_tokens` are present, pass the larger one."""
    reserved = _reserve(limit, max_tokens)
    floor = min(FLOOR, int(FLOOR_SHARE * limit.context_size))
    room = max(limit.context_size - reserved, floor, 1)
    return _budget(_capped(limit, room), reserved, limit)


def widest(limit: Limit, max_tokens: int | None = None) -> Budget:
    """The largest budget, with only the smallest useful output reserved: for a request that would be refused
    otherwise."""
    lowest = _lowest(limit, max_tokens if max_tokens and max_tokens > 0 else limit.max_output_tokens)
    reserved = min(lowest, limit.context_size // 2)
    return _budget(max(1, _capped(limit, limit.context_size - reserved)), reserved, limit)


def _budget(room: int, reserved: int, limit: Limit) -> Budget:
    return Budget(room, reserved, limit.context_size, room)


def _capped(limit: Limit, room: int) -> int:
    """`room`, at most the model's input cap and the operator's budget."""
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
    """The smallest power of two that is at least `n`; 1 for `n` below 1."""
    return 1 << max(0, n - 1).bit_length()


def lowered_max_tokens(limit: Limit, max_tokens: int | None, input_tokens: int) -> int | None:
    """The `max_tokens` to send instead, or None to leave it unchanged.

    Lowered where the input (`input_tokens`, estimated after shaping) fits the window and input plus output does not.
    Unchanged where both fit; where it alone fills the window (the upstream's own error is clearer than ours); where
    too little remains for an answer (compact instead); and where the window is a guess.
    """
    if max_tokens is None or not limit.trusted or max_tokens >= limit.context_size:
        return None
    if input_tokens + max_tokens <= limit.context_size:
        return None
    room = limit.context_size - input_tokens - max(_MARGIN_LEAST, input_tokens // _MARGIN_SHARE)
    return room if room >= _lowest(limit, max_tokens) else None


def _lowest(limit: Limit, max_tokens: int) -> int:
    return max(1, min(LOWEST_OUTPUT, limit.context_size // LOWEST_SHARE, max_tokens // 2))
