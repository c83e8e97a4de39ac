"""Heavy work runs beside the loop, light work on it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from trimtab.exchange.offload import TURN_S, planned_beside, read_beside, read_in_turns

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("run", [planned_beside, read_beside])
async def test_only_heavy_work_leaves_the_loop(run) -> None:  # type: ignore[no-untyped-def]
    here = threading.current_thread()
    assert await run(False, threading.current_thread) is here
    assert await run(True, threading.current_thread) is not here


async def test_an_answer_is_read_while_a_request_is_planned() -> None:
    planning, read = threading.Event(), threading.Event()

    def plan() -> bool:
        planning.set()
        return read.wait(10)

    planned = asyncio.ensure_future(planned_beside(True, plan))
    while not planning.is_set():  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    await read_beside(True, read.set)
    assert await planned


async def test_what_is_raised_there_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        await planned_beside(True, lambda: 1 // 0)


async def test_a_long_answer_takes_turns_with_the_others() -> None:
    taken: list[str] = []

    def steps(name: str, seconds: float, count: int) -> Iterator[None]:
        for _ in range(count):
            time.sleep(seconds)
            taken.append(name)
            yield

    long = asyncio.ensure_future(read_in_turns(True, steps("long", TURN_S / 2, 40)))
    await asyncio.sleep(TURN_S)
    await read_in_turns(True, steps("short", 0.0, 3))
    assert not long.done()
    await long
    assert taken.count("long") == 40
    assert taken.index("short") < 12
