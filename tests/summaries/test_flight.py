"""One making for all who ask, in this process and in another."""

from __future__ import annotations

import asyncio
import time

import pytest

from trimtab.store.keys import PREFIX, lock_key
from trimtab.store.memory import MemoryStore
from trimtab.summaries.flight import Flights

pytestmark = pytest.mark.anyio

KEY = PREFIX + "s:00"


class Made:
    """A thing that takes `takes_s` to make, and the place where replicas look for it."""

    def __init__(self, takes_s: float = 0.05) -> None:
        self.takes_s = takes_s
        self.count = 0
        self.there: str | None = None

    async def make(self) -> str:
        self.count += 1
        await asyncio.sleep(self.takes_s)
        self.there = f"made {self.count}"
        return self.there

    async def ready(self) -> str | None:
        return self.there


async def test_all_who_ask_get_the_same_and_one_has_led() -> None:
    flights, thing = Flights[str](MemoryStore()), Made()
    landed = await asyncio.gather(*(flights.join(KEY, thing.make, thing.ready) for _ in range(20)))
    assert {one.value for one in landed if one} == {"made 1"}
    assert [one.led for one in landed if one].count(True) == 1


async def test_two_replicas_make_it_once() -> None:
    store, thing = MemoryStore(), Made(0.2)
    replicas = [Flights[str](store), Flights[str](store)]
    await asyncio.gather(*(replica.join(KEY, thing.make, thing.ready) for replica in replicas))
    assert thing.count == 1


async def test_the_lock_is_held_while_the_work_lasts_and_given_back_after() -> None:
    store, thing = MemoryStore(), Made(0.5)
    flight = asyncio.create_task(Flights[str](store, lock_s=0.15).join(KEY, thing.make, thing.ready))
    for _ in range(4):
        await asyncio.sleep(0.1)
        assert not await store.lock(lock_key(KEY), "another", 60)
    await flight
    assert await store.lock(lock_key(KEY), "another", 60)


async def test_the_lock_is_given_back_when_the_making_fails() -> None:
    store = MemoryStore()

    async def make() -> str:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await Flights[str](store).join(KEY, make, Made().ready)
    assert await store.lock(lock_key(KEY), "another", 60)


async def test_a_lock_nobody_renews_is_taken_over() -> None:
    store, thing = MemoryStore(), Made()
    await store.lock(lock_key(KEY), "crashed", 0.2)
    landed = await Flights[str](store).join(KEY, thing.make, thing.ready, wait_s=2)
    assert landed is not None
    assert thing.count == 1


async def test_what_another_replica_made_is_taken() -> None:
    store, thing = MemoryStore(), Made()
    await store.lock(lock_key(KEY), "another", 60)
    flight = asyncio.create_task(Flights[str](store).join(KEY, thing.make, thing.ready))
    await asyncio.sleep(0.05)
    thing.there = "theirs"
    landed = await flight
    assert landed is not None
    assert (landed.value, thing.count) == ("theirs", 0)


async def test_who_waited_long_enough_goes_and_the_work_goes_on() -> None:
    flights, thing = Flights[str](MemoryStore()), Made(0.2)
    assert await flights.join(KEY, thing.make, thing.ready, wait_s=0.02) is None
    landed = await flights.join(KEY, thing.make, thing.ready)
    assert landed is not None
    assert (thing.count, landed.led) == (1, False)


async def test_draining_ends_what_is_under_way() -> None:
    flights, thing = Flights[str](MemoryStore()), Made(60)
    waiting = asyncio.create_task(flights.join(KEY, thing.make, thing.ready))
    await asyncio.sleep(0.02)
    start = time.monotonic()
    await flights.drain(0.05)
    assert time.monotonic() - start < 1
    assert await waiting is None
    assert await flights.join(KEY, thing.make, thing.ready) is None
