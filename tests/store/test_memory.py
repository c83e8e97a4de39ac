"""What only the in-process store promises: its bounds, by a clock that the test moves."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import Clock
from trimtab.store.memory import ENTRY_OVERHEAD, MemoryStore

pytestmark = pytest.mark.anyio

ROOM_FOR_THREE = 3 * (ENTRY_OVERHEAD + 101)


async def kept(store: MemoryStore, keys: str) -> list[str]:
    return [key for key in keys if await store.get(key)]


async def test_the_least_recently_used_goes_first() -> None:
    store = MemoryStore(max_bytes=ROOM_FOR_THREE)
    for key in "abc":
        await store.set(key, b"x" * 100, 60)
    await store.get("a")
    await store.set("d", b"x" * 100, 60)
    assert await kept(store, "abcd") == ["a", "c", "d"]


async def test_a_value_that_ran_out_makes_room_before_any_other_goes() -> None:
    clock = Clock()
    store = MemoryStore(max_bytes=ROOM_FOR_THREE, clock=clock)
    await store.set("old", b"x" * 98, 60)
    await store.set("b", b"x" * 100, 60)
    await store.set("short", b"x" * 96, 10)
    clock.now += 10
    await store.set("d", b"x" * 100, 60)
    assert [await store.get(key) is not None for key in ("old", "b", "short", "d")] == [True, True, False, True]


async def test_locks_nobody_gave_back_do_not_pile_up() -> None:
    clock = Clock()
    store = MemoryStore(clock=clock)
    tracemalloc.start()
    for n in range(5_000):
        clock.now += 1
        assert await store.lock(f"lock-{n}", "t", 1)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 100_000  # bytes; one lock takes some 500


async def test_a_held_lock_never_goes_to_make_room() -> None:
    store = MemoryStore(max_bytes=1)
    for n in range(5_000):
        await store.lock(f"lock-{n}", "mine", 60)
    assert not await store.lock("lock-0", "yours", 60)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 400)), max_size=60))
async def test_the_bound_in_bytes_always_holds(writes: list[tuple[str, int]]) -> None:
    store = MemoryStore(max_bytes=1_900, max_value_bytes=300)
    for key, size in writes:
        await store.set(key, b"x" * size, 60)
        held = [value for value in await store.get_many("abcdef") if value is not None]
        assert sum(len(value) + 1 + ENTRY_OVERHEAD for value in held) <= 1_900
        assert (await store.get(key) is not None) == (size <= 300)


async def test_a_value_larger_than_the_whole_store_takes_no_other_away() -> None:
    store = MemoryStore(max_bytes=1_000)
    await store.set("a", b"x", 60)
    await store.set("b", b"x" * 1_000, 60)
    assert await kept(store, "ab") == ["a"]
