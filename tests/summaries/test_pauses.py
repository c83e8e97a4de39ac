"""Failures are remembered, by a clock that the test moves."""

from __future__ import annotations

import pytest

from tests.support.clock import Clock
from trimtab.store.keys import PREFIX, pause_key
from trimtab.store.memory import MemoryStore
from trimtab.summaries.pauses import LONGEST_S, Pauses

pytestmark = pytest.mark.anyio

KEY = PREFIX + "s:00"


async def test_nothing_is_paused_before_a_failure() -> None:
    assert not await Pauses(MemoryStore()).is_paused(KEY)


async def test_the_pause_grows_up_to_an_hour() -> None:
    clock = Clock()
    pauses = Pauses(MemoryStore(clock=clock), clock)
    lengths = []
    for _ in range(9):
        await pauses.record_failure(KEY)
        start = clock.now
        while await pauses.is_paused(KEY):
            clock.now += 15
        lengths.append(clock.now - start)
    assert lengths == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]


async def test_after_a_long_time_it_begins_with_the_first_pause() -> None:
    clock = Clock()
    pauses = Pauses(MemoryStore(clock=clock), clock)
    for _ in range(5):
        await pauses.record_failure(KEY)
    clock.now += 3 * LONGEST_S
    await pauses.record_failure(KEY)
    clock.now += 31
    assert not await pauses.is_paused(KEY)


@pytest.mark.parametrize("garbage", [b"", b"x", b"[1]", b'{"failures":1}', b"[1,1e300]", b"[-5,0]"])
async def test_an_unreadable_record_counts_as_none(garbage: bytes) -> None:
    store = MemoryStore()
    await store.set(pause_key(KEY), garbage, 60)
    pauses = Pauses(store)
    assert not await pauses.is_paused(KEY)
    await pauses.record_failure(KEY)
    assert await pauses.is_paused(KEY)
