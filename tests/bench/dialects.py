"""What the core costs in each dialect, for the same conversation: the same texts, calls and results.

    python -m tests.bench.dialects

`cold`: nothing of the conversation was seen before. `one cycle later`: all but its last answer and results was planned
a moment ago, as at every step of an agent. Each is everything from the received bytes to the bytes that are sent. The
dialects take turns, so that what else the machine does meets all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from tests.bench import bodies
from tests.bench.servers import FITS, SHAPED_WINDOW
from tests.support.converted import as_messages, as_responses
from trimtab.context.apply.apply import apply
from trimtab.context.plan.plan import plan
from trimtab.context.policy import Policy
from trimtab.context.read.history import Reader
from trimtab.context.read.memo import Memo
from trimtab.dialects.dialect import Dialect
from trimtab.dialects.paths import DIALECTS

BUDGET = SHAPED_WINDOW - 4_096
ROOMY = 10_000_000  # tokens; everything fits
ROUNDS = 15
_CONVERT: dict[str, Callable[..., Any]] = {
    "chat": lambda body: body,
    "responses": as_responses,
    "messages": as_messages,
}


def run(rounds: int = ROUNDS) -> dict[str, dict[str, float]]:
    """Milliseconds of the fastest of `rounds` runs, by case and dialect."""
    request = msgspec.json.decode(bodies.body(FITS, bodies.SIZE_OF_100K_TOKENS))
    before = {**request, "messages": request["messages"][:-2]}
    now = {d.name: msgspec.json.encode(_CONVERT[d.name](request)) for d in DIALECTS}
    then = {d.name: msgspec.json.encode(_CONVERT[d.name](before)) for d in DIALECTS}
    found: dict[str, dict[str, float]] = {}
    for name, budget in (("fits", ROOMY), ("shaped", BUDGET)):
        cold, later = found[f"{name}, cold"], found[f"{name}, one cycle later"] = {}, {}
        for _ in range(rounds):
            for d in DIALECTS:
                core = _Core(d)
                cold[d.name] = min(cold.get(d.name, 1e9), core.time(then[d.name], budget))
                later[d.name] = min(later.get(d.name, 1e9), core.time(now[d.name], budget))
    return found


class _Core:
    """What a process knows of one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect, self._memo = dialect, Memo(view=dialect.format.view, digest=dialect.format.digest)
        self._reader = Reader(self._memo, decode=dialect.decode)

    def time(self, body: bytes, budget: int) -> float:
        """Milliseconds from the bytes received to the bytes to send."""
        began = time.perf_counter()
        self.sent(body, budget)
        return round((time.perf_counter() - began) * 1e3, 4)

    def sent(self, body: bytes, budget: int) -> bytes:
        """The body to send."""
        dialect, reader = self._dialect, self._reader
        reading = reader.read(body)
        made = plan(reader.history(reading), Policy(), budget, self._memo, dialect.format)
        if not made.changes:
            return body
        return dialect.render(reading.request, apply(reading.request.messages, made, format=dialect.format), {})


def main() -> None:
    print(f"{'ms':30}" + "".join(f"{d.name:>20}" for d in DIALECTS))
    for case, times in run().items():
        shown = (f"{ms:10.3f}{ms / times['chat']:8.2f} x" for ms in times.values())
        print(f"{case:30}" + "".join(shown))


if __name__ == "__main__":
    main()
