"""A circuit breaker as a value machine: no I/O, no waiting; its clock is an argument.

    closed ── `threshold` failures in a row ──> open ── pause over: one call may go ──> on trial
    on trial ── success ──> closed, but on probation: the next failure opens it again
    on trial ── failure ──> open, with twice the pause

While it is open, asking costs a comparison. `suspicion` counts the failures in a row, so that a caller can
grow impatient before the breaker opens. With `forget_s` a success forgives only failures older than that:
of many shards one may be frozen, and the answers of the others say nothing about it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal


class Breaker:
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
        self._trips = 0
        self._failed_at = 0.0
        self._until = 0.0
        self.state: Literal["closed", "open", "trial"] = "closed"
        self.suspicion = 0

    @property
    def closed(self) -> bool:
        return self.state == "closed"

    def admits(self) -> bool:
        """Whether a call may go: always while closed; else once per pause, and that call is the trial."""
        if self.closed:
            return True
        now = self._clock()
        if now < self._until:
            return False
        self.state, self._until = "trial", now + self._pause()  # should the trial be lost, there is another
        return True

    def succeeded(self) -> None:
        if self.closed:
            if self._clock() - self._failed_at >= self._forget * 2.0**self._trips:
                self._trips = self.suspicion = 0
        else:
            self.state, self.suspicion = "closed", self._threshold - 1

    def failed(self) -> None:
        self.suspicion += 1
        self._failed_at = self._clock()
        if self.state == "trial" or (self.closed and self.suspicion >= self._threshold):
            self._trips += 1
            self.state, self._until = "open", self._clock() + self._pause()

    def _pause(self) -> float:
        """Seconds: doubled with every opening since the last undisturbed success."""
        return min(self._first * 2.0 ** max(0, self._trips - 1), self._longest)
