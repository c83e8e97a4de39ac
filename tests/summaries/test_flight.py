"""One call of `make` for all callers, in this process and in others; and background work within its bounds."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.support.waiting import eventually
from trimtab.store.keys import PREFIX, lock_key
from trimtab.store.memory import MemoryStore
from trimtab.summaries.flight import Background, Flights

pytestmark = pytest.mark.anyio

KEY = PREFIX + "s:00"
LOCK = lock_key(KEY)


class Thing:
    """A thing that is made once `gate` is set, and the place where replicas look for it."""

    def __init__(self, *, held: bool = False) -> None:
        self.gate = asyncio.Event()
        self.count = 0
        self.there: str | None = None
        if not held:
            self.gate.set()

    async def make(self) -> str:
        self.count += 1
        await self.gate.wait()
        self.there = f"made {self.count}"
        return self.there

    async def find(self) -> str | None:
        return self.there

    async def begun(self) -> None:
        await eventually(lambda: self.count > 0)


async def test_all_who_ask_get_the_same_value_and_one_has_started_it() -> None:
    flights, thing = Flights[str](MemoryStore()), Thing()
    joined = await asyncio.gather(*(flights.join(KEY, thing.make, thing.find) for _ in range(20)))
    assert {one.value for one in joined if one} == {"made 1"}
    assert [one.started for one in joined if one].count(True) == 1


async def test_two_replicas_make_it_once() -> None:
    store, thing = MemoryStore(), Thing(held=True)
    joining = [asyncio.create_task(Flights[str](store).join(KEY, thing.make, thing.find)) for _ in range(2)]
    await thing.begun()
    thing.gate.set()
    await asyncio.gather(*joining)
    assert thing.count == 1


async def test_the_lock_is_held_while_the_work_lasts_and_freed_after() -> None:
    store, thing = MemoryStore(), Thing(held=True)
    flight = asyncio.create_task(Flights[str](store, lock_s=0.06).join(KEY, thing.make, thing.find))
    await thing.begun()
    ends = time.monotonic() + 0.15  # longer than the lock lasts without renewal
    while time.monotonic() < ends:
        assert not await store.lock(LOCK, "another", 60)
        await asyncio.sleep(0.01)
    thing.gate.set()
    await flight
    assert await store.lock(LOCK, "another", 60)


async def test_the_lock_is_freed_when_the_making_fails() -> None:
    store = MemoryStore()

    async def make() -> str:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await Flights[str](store).join(KEY, make, Thing().find)
    assert await store.lock(LOCK, "another", 60)


async def test_a_lock_that_is_not_renewed_is_taken_over() -> None:
    store, thing = MemoryStore(), Thing()
    await store.lock(LOCK, "crashed", 0.05)
    joined = await Flights[str](store).join(KEY, thing.make, thing.find, wait_s=5)
    assert joined is not None
    assert thing.count == 1


async def test_what_another_replica_made_is_taken() -> None:
    store, thing = MemoryStore(), Thing()
    await store.lock(LOCK, "another", 60)
    flight = asyncio.create_task(Flights[str](store).join(KEY, thing.make, thing.find))
    thing.there = "theirs"
    joined = await flight
    assert joined is not None
    assert (joined.value, thing.count) == ("theirs", 0)


async def test_a_caller_that_waited_long_enough_goes_on_and_so_does_the_work() -> None:
    flights, thing = Flights[str](MemoryStore()), Thing(held=True)
    assert await flights.join(KEY, thing.make, thing.find, wait_s=0.02) is None
    thing.gate.set()
    joined = await flights.join(KEY, thing.make, thing.find)
    assert joined is not None
    assert (thing.count, joined.started) == (1, False)


async def test_draining_ends_what_is_under_way() -> None:
    flights, thing = Flights[str](MemoryStore()), Thing(held=True)
    waiting = asyncio.create_task(flights.join(KEY, thing.make, thing.find))
    await thing.begun()
    start = time.monotonic()
    await flights.drain(0.05)
    assert time.monotonic() - start < 1
    assert await waiting is None
    assert await flights.join(KEY, thing.make, thing.find) is None


async def test_in_the_background_one_job_a_key_and_no_more_than_the_bound() -> None:
    background, gate = Background(2), asyncio.Event()

    async def job() -> None:
        await gate.wait()

    assert [background.start(key, job) for key in ("a", "a", "b", "c")] == [True, False, True, False]
    gate.set()
    await eventually(lambda: background.start("c", job))


@pytest.mark.parametrize(("ends", "grace_s", "done"), [(True, 5.0, ["a"]), (False, 0.01, [])])
async def test_draining_waits_for_jobs_and_then_cancels_them(ends: bool, grace_s: float, done: list[str]) -> None:
    background, gate, finished = Background(2), asyncio.Event(), []

    async def job() -> None:
        await gate.wait()
        finished.append("a")

    background.start("a", job)
    draining = asyncio.create_task(background.drain(grace_s))
    await asyncio.sleep(0)
    if ends:
        gate.set()
    await draining
    assert finished == done
    assert not background.start("b", job)


async def test_draining_nothing_is_nothing() -> None:
    await Background(1).drain(1)
