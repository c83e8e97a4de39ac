"""Failures are remembered, by a clock turned by hand."""

from __future__ import annotations

import pytest

from trimtab.store.keys import PREFIX, pause_key
from trimtab.store.memory import MemoryStore
from trimtab.summaries.pauses import LONGEST_S, Pauses

pytestmark = pytest.mark.anyio

KEY = PREFIX + "s:00"


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


async def test_nothing_holds_before_a_failure() -> None:
    assert not await Pauses(MemoryStore()).holds(KEY)


async def test_the_pause_grows_up_to_an_hour() -> None:
    clock = Clock()
    pauses = Pauses(MemoryStore(clock=clock), clock)
    lengths = []
    for _ in range(9):
        await pauses.failed(KEY)
        start = clock.now
        while await pauses.holds(KEY):
            clock.now += 15
        lengths.append(clock.now - start)
    assert lengths == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]


async def test_after_a_long_quiet_it_begins_anew() -> None:
    clock = Clock()
    pauses = Pauses(MemoryStore(clock=clock), clock)
    for _ in range(5):
        await pauses.failed(KEY)
    clock.now += 3 * LONGEST_S
    await pauses.failed(KEY)
    clock.now += 31
    assert not await pauses.holds(KEY)


@pytest.mark.parametrize("garbage", [b"", b"x", b"[1]", b'{"failures":1}', b"[1,1e300]", b"[-5,0]"])
async def test_an_unreadable_record_is_none(garbage: bytes) -> None:
    store = MemoryStore()
    await store.set(pause_key(KEY), garbage, 60)
    pauses = Pauses(store)
    assert not await pauses.holds(KEY)
    await pauses.failed(KEY)
    assert await pauses.holds(KEY)
