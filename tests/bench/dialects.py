"""What the core costs in each dialect, for the same conversation: the same texts, calls and results.

    python -m tests.bench.dialects

`cold`: nothing of the conversation was seen before. `one cycle later`: all but its last answer and results was sent a
moment ago, and so were the steps before, as at every step of an agent. Each is everything from the received bytes to
the bytes that are sent, in milliseconds, the fastest of many. The dialects take turns, so that what else the machine
does meets all of them, and each has a process of its own: where its bodies lie in memory alone makes reading them up to
twice as fast.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

from tests.bench import bodies
from tests.bench.servers import FITS, SHAPED_WINDOW
from tests.support.converted import as_messages, as_responses
from trimtab.context.apply.apply import apply_again
from trimtab.context.apply.splices import Splices
from trimtab.context.plan.plan import plan
from trimtab.context.plan.replays import Replays
from trimtab.context.policy import Policy
from trimtab.context.read.history import Reader
from trimtab.context.read.memo import Memo
from trimtab.dialects.dialect import Dialect
from trimtab.dialects.paths import DIALECTS

BUDGET = SHAPED_WINDOW - 4_096
ROOMY = 10_000_000  # tokens; everything fits
TURNS, ROUNDS = 5, 15
STEPS = 4  # cycles of the conversation that were sent before
_CONVERT: dict[str, Callable[..., Any]] = {
    "chat": lambda body: body,
    "responses": as_responses,
    "messages": as_messages,
}


def run(turns: int = TURNS) -> dict[str, dict[str, float]]:
    """Milliseconds, by case and dialect."""
    found: dict[str, dict[str, float]] = {}
    for _ in range(turns):
        for d in DIALECTS:
            command = [sys.executable, "-m", "tests.bench.dialects", "--dialect", d.name]
            times = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            for case, ms in times.items():
                best = found.setdefault(case, {})
                best[d.name] = min(best.get(d.name, ms), ms)
    return found


def measured(dialect: Dialect) -> dict[str, float]:
    """Milliseconds by case, for one dialect, in this process."""
    request = msgspec.json.decode(bodies.body(FITS, bodies.SIZE_OF_100K_TOKENS))
    before = [{**request, "messages": request["messages"][: -2 * back]} for back in range(STEPS, 0, -1)]
    *then, now = (msgspec.json.encode(_CONVERT[dialect.name](each)) for each in (*before, request))
    found: dict[str, float] = {}
    for name, budget in (("fits", ROOMY), ("shaped", BUDGET)):
        cold, later = [], []
        for _ in range(ROUNDS):
            core = _Core(dialect)
            cold.append(core.time(then[0], budget))
            for body in then[1:]:
                core.sent(body, budget)
            later.append(core.time(now, budget))
        found |= {f"{name}, cold": min(cold), f"{name}, one cycle later": min(later)}
    return found


class _Core:
    """What a process knows of one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect, self._memo = dialect, Memo(view=dialect.format.view, digest=dialect.format.digest)
        self._reader = Reader(self._memo, decode=dialect.decode)
        self._replays, self._splices = Replays(), Splices(self._memo, dialect.format)

    def time(self, body: bytes, budget: int) -> float:
        """Milliseconds from the bytes received to the bytes to send."""
        began = time.perf_counter()
        self.sent(body, budget)
        return round((time.perf_counter() - began) * 1e3, 4)

    def sent(self, body: bytes, budget: int) -> bytes:
        """The body to send."""
        dialect, reader = self._dialect, self._reader
        reading = reader.read(body)
        history = reader.history(reading)
        made = plan(history, Policy(), budget, self._memo, dialect.format, self._replays)
        if not made.changes:
            return body
        messages = apply_again(history, made, None, "system", dialect.format, self._splices)
        return dialect.render(reading.request, messages, {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dialect", choices=[d.name for d in DIALECTS], help="measure this one here, as JSON")
    if given := parser.parse_args().dialect:
        print(json.dumps(measured(next(d for d in DIALECTS if d.name == given))))
        return
    print(f"{'ms':30}" + "".join(f"{d.name:>20}" for d in DIALECTS))
    for case, times in run().items():
        print(f"{case:30}" + "".join(f"{ms:10.3f}{ms / times['chat']:8.2f} x" for ms in times.values()))


if __name__ == "__main__":
    main()
