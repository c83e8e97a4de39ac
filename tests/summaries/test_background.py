"""Work beside the requests keeps its bounds and ends with the process."""

from __future__ import annotations

import asyncio

import pytest

from trimtab.summaries.background import Background

pytestmark = pytest.mark.anyio


async def test_one_job_a_key_and_no_more_than_the_bound() -> None:
    background, gate = Background(2), asyncio.Event()

    async def job() -> None:
        await gate.wait()

    assert [background.start(key, job) for key in ("a", "a", "b", "c")] == [True, False, True, False]
    gate.set()
    await asyncio.sleep(0.01)
    assert background.start("c", job)


@pytest.mark.parametrize(("takes_s", "grace_s", "ended"), [(0.05, 5.0, ["a"]), (60.0, 0.05, [])])
async def test_draining_waits_for_a_while_and_then_drops(takes_s: float, grace_s: float, ended: list[str]) -> None:
    background, done = Background(2), []

    async def job() -> None:
        await asyncio.sleep(takes_s)
        done.append("a")

    background.start("a", job)
    await asyncio.sleep(0.01)
    await background.drain(grace_s)
    assert done == ended
    assert not background.start("b", job)


async def test_draining_nothing_is_nothing() -> None:
    await Background(1).drain(1)
