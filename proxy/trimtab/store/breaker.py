"""A circuit breaker as a value machine: no I/O, no waiting; its clock is an argument.

    closed ── `threshold` failures in a row ──> open ── pause over: one call may go ──> half-open
    half-open ── success ──> closed; one more failure opens it again, until the next success
    half-open ── failure ──> open, with twice the pause

While it is open, asking costs a comparison. `failures` counts those in a row, so that a caller can shorten its waits
before the breaker opens. With `forget_s` a success forgets only failures that are older: one shard of many may be
frozen, and the answers of the others say nothing about it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal


class Breaker:
    """One breaker. `pause_s` doubles up to `longest_s`; `clock` gives seconds and never goes back."""

    def __init__(
        self,
        threshold: int = 3,
        pause_s: float = 0.5,
        longest_s: float = 5.0,
        forget_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._threshold = threshold
        self._first = pause_s
        self._longest = longest_s
        self._forget = forget_s
        self._clock = clock
        self._openings = 0  # since the last success that closed it for good
        self._failed_at = 0.0
        self._until = 0.0
        self._state: Literal["closed", "open", "half-open"] = "closed"
        self.failures = 0

    @property
    def closed(self) -> bool:
        """True when every call may go."""
        return self._state == "closed"

    def admits(self) -> bool:
        """True when a call may go: always while closed, else once in each pause, to try."""
        if self.closed:
            return True
        now = self._clock()
        if now < self._until:
            return False
        self._state, self._until = "half-open", now + self._pause()  # if that call never reports, the next one may go
        return True

    def succeeded(self) -> None:
        """Report a call that was answered."""
        if self.closed:
            if self._clock() - self._failed_at >= self._forget * 2.0**self._openings:
                self._openings = self.failures = 0
        else:
            self._state, self.failures = "closed", self._threshold - 1

    def failed(self) -> None:
        """Report a call that was not answered."""
        self.failures += 1
        self._failed_at = self._clock()
        if self._state == "half-open" or (self.closed and self.failures >= self._threshold):
            self._openings += 1
            self._state, self._until = "open", self._clock() + self._pause()

    def _pause(self) -> float:
        """Seconds, doubled with each opening."""
        return min(self._first * 2.0 ** max(0, self._openings - 1), self._longest)
