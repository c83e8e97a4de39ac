"""Heavy work beside the event loop, so that nobody else waits for it.

Nearly every request is planned in a millisecond, on the loop, where nothing costs less. One with megabytes of new text
or thousands of messages takes up to seconds: that runs in a thread. So does reading along in an answer that comes in
large or compressed pieces. There is one thread for each of the two, because Python runs one at a time anyway: with more
of them the loop would wait for each in turn. Python changes threads every `SWITCH_S`; a single call into C cannot be
interrupted, so what enters such a call is bounded (`wire.values`, `wire.encoding`, `context.estimate.tokens`).
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

SWITCH_S = 0.0001
"""Seconds that a busy thread keeps others waiting. Python's own 5 ms would be added to each of the ten or so turns of
the event loop that a request takes."""

LIGHT_NEW = 512 << 10  # bytes of a body, not seen before: read and planned in a few milliseconds
LIGHT_KNOWN = 2 << 20  # bytes of a body in all: found again, and copied, in a few milliseconds
LIGHT_MESSAGES = 2_000  # planned in a few milliseconds
LIGHT_PIECE = 4 << 10  # bytes of an answer: at worst 1,300 comments, which are read in a few milliseconds

REQUESTS = ThreadPoolExecutor(max_workers=1, thread_name_prefix="trimtab-requests")
TURN_S = 0.01
"""Seconds for which one answer is read at a time, where others wait for the same thread."""

ANSWERS = ThreadPoolExecutor(max_workers=1, thread_name_prefix="trimtab-answers")


async def beside(thread: ThreadPoolExecutor, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a thread, after what waits there already. Raises what it raises."""
    sys.setswitchinterval(SWITCH_S)
    return await asyncio.get_running_loop().run_in_executor(thread, lambda: work(*args, **kwargs))


async def planned_beside(heavy: bool, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run work on a request beside the loop where it is heavy, else here."""
    return await beside(REQUESTS, work, *args, **kwargs) if heavy else work(*args, **kwargs)


async def read_beside(heavy: bool, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Read a part of an answer beside the loop where that is heavy, else here."""
    return await beside(ANSWERS, work, *args, **kwargs) if heavy else work(*args, **kwargs)


async def read_in_turns(heavy: bool, steps: Iterator[None]) -> None:
    """Read a part of an answer step by step; beside the loop, where it is heavy, only for `TURN_S` at a time: then it
    waits again behind the others, so that no answer takes the thread for itself."""
    while not await read_beside(heavy, _turn, steps):
        pass


def _turn(steps: Iterator[None]) -> bool:
    """Take steps for one turn. True when there are no more."""
    until = time.perf_counter() + TURN_S
    return all(time.perf_counter() < until for _ in steps)
