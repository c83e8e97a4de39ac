"""What the core costs by itself, in one process: reading a request, planning it, making the bytes to send.

Each figure is the best of several runs: the machine's other work can only add. `cold` is a memo that has seen
nothing, `warm` one that has seen this very history, `one cycle later` one that has seen all but its last tool cycle,
which is what happens at every step of an agent run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tests.bench import bodies, dialects
from tests.bench.servers import FITS, SHAPED_WINDOW
from tests.bench.upstream import EVENT
from trimtab.context.apply.apply import apply, apply_again
from trimtab.context.apply.format import CHAT
from trimtab.context.apply.splices import Splices
from trimtab.context.edits import Plan
from trimtab.context.plan.plan import plan
from trimtab.context.plan.replays import Replays
from trimtab.context.plan.wanted import chain
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.context.read.history import History, Reader, history
from trimtab.context.read.memo import Memo
from trimtab.wire import sse
from trimtab.wire.chat import decode, render
from trimtab.wire.request import Request

BUDGET = SHAPED_WINDOW - 4_096
ROOMY = 10_000_000  # tokens; everything fits
POLICY = Policy()
PLAIN = Policy(ShapingSettings(extract_share=0, result_extract=0))
LENGTHS = (10, 100, 1_000, 10_000)  # messages


def run() -> dict[str, Any]:
    """Milliseconds, and the two ratios the aims name."""
    body = bodies.body(FITS, bodies.SIZE_OF_100K_TOKENS)
    request = decode(body)
    found = {"bytes": len(body), "messages": len(request.messages), **_steps(request)}
    fits, shaped = growth(ROOMY), growth(BUDGET)
    return {
        "a request of 100K tokens, ms": found,
        "one cycle later / cold": found["plan, one cycle later"] / found["plan, cold"],
        "one message more, us a message, fits": fits,
        "one message more, us a message, shaped": shaped,
        "growth": max(fits["10000"] / fits["100"], shaped["10000"] / shaped["1000"]),
        **{f"{case}, ms": times for case, times in dialects.run().items()},
        "tap, us a chunk": best(_tap, 9) / 1000 * 1e6,
    }


def best(work: Callable[[], object], times: int, before: Callable[[], object] = lambda: None) -> float:
    """Seconds of the fastest of `times` runs; `before` runs before each and is not counted."""
    found = []
    for _ in range(times):
        before()
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return min(found)


def _steps(request: Request) -> dict[str, float]:
    warm = Memo()
    made = planned(request, request.messages, warm, BUDGET)
    reader = Reader(Memo())
    reader.history(reader.read(request.body))
    spans = [(i, i + 40) for i in range(2, len(request.messages) - 40, 40)]
    took = {
        "decode": best(lambda: decode(request.body), 15),
        "decode and views, beginning known": best(lambda: reader.history(reader.read(request.body)), 15),
        "views, cold": best(lambda: Memo().views(request.messages), 9),
        "views, warm": best(lambda: warm.views(request.messages), 15),
        "plan, cold": best(lambda: planned(request, request.messages, Memo(), BUDGET), 9),
        "plan, warm": best(lambda: planned(request, request.messages, warm, BUDGET), 15),
        "plan, one cycle later": later(request, request.messages, BUDGET, 9),
        "plan, warm, fits": best(lambda: planned(request, request.messages, warm, ROOMY), 15),
        "plan, cold, no extracts": best(lambda: planned(request, request.messages, Memo(), BUDGET, None, PLAIN), 9),
        "apply and render": best(lambda: render(request, apply(request.messages, made), {}), 15),
        "apply and render, sent before": sent_before(request, 15),
        "digest chain": best(lambda: chain(request.messages, spans), 9),
    }
    return {name: round(seconds * 1e3, 4) for name, seconds in took.items()}


def planned(
    request: Request,
    messages: Sequence[msgspec.Raw],
    memo: Memo,
    budget: int,
    replays: Replays | None = None,
    policy: Policy = POLICY,
) -> Plan:
    """History and plan, as the exchange does it."""
    return plan(history(messages, request.extras, memo), policy, budget, memo, CHAT, replays)


def sent_before(request: Request, times: int) -> float:
    """Seconds for the body of a request that was sent a moment ago."""
    memo, replays = Memo(), Replays()
    reader, splices = Reader(memo), Splices(memo)

    def read() -> tuple[History, Plan]:
        found = reader.history(reader.read(request.body))
        return found, plan(found, POLICY, BUDGET, memo, CHAT, replays)

    def write() -> bytes:
        return render(request, apply_again(found, made, None, "system", CHAT, splices), {})

    for _ in range(4):
        found, made = read()
        write()
    return best(write, times)


def later(request: Request, messages: Sequence[msgspec.Raw], budget: int, times: int) -> float:
    """Seconds for a conversation whose all but newest two messages were planned before, by the same memo."""
    memo, replays = Memo(), Replays()

    def before() -> None:
        nonlocal memo, replays
        memo, replays = Memo(), Replays()
        planned(request, messages[:-2], memo, budget, replays)

    return best(lambda: planned(request, messages, memo, budget, replays), times, before)


def growth(budget: int) -> dict[str, float]:
    """Microseconds for one cycle more, by length of the history, over its number of messages."""
    request = decode(bodies.body(FITS, 12_000_000))
    assert len(request.messages) >= LENGTHS[-1]
    return {
        str(n): round(later(request, request.messages[:n], budget, 3 if n > 1_000 else 9) / n * 1e6, 3) for n in LENGTHS
    }


def _tap() -> None:
    tap = sse.Tap()
    for _ in range(1_000):
        tap.feed(EVENT)
