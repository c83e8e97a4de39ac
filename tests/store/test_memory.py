"""What only the in-process store promises: its bounds, by a clock turned by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.store.memory import ENTRY_OVERHEAD, MAX_LOCKS, MemoryStore

pytestmark = pytest.mark.anyio


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_the_least_recently_used_goes_first() -> None:
    store = MemoryStore(max_bytes=3 * (ENTRY_OVERHEAD + 101))
    for key in "abc":
        await store.set(key, b"x" * 100, 60)
    await store.get("a")
    await store.set("d", b"x" * 100, 60)
    assert [key for key in "abcd" if await store.get(key)] == ["a", "c", "d"]


async def test_a_value_that_ran_out_is_given_back_at_once() -> None:
    clock = Clock()
    store = MemoryStore(clock=clock)
    await store.set("k", b"v", 10)
    clock.now = 10
    assert await store.get("k") is None
    assert store.bytes_held == 0


async def test_locks_nobody_gave_back_do_not_pile_up() -> None:
    clock = Clock()
    store = MemoryStore(clock=clock)
    for n in range(5 * MAX_LOCKS):
        clock.now = float(n)
        await store.lock(f"l{n}", "t", 1)
    assert len(store._locks) <= MAX_LOCKS


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 400)), max_size=60))
async def test_the_bound_in_bytes_always_holds(writes: list[tuple[str, int]]) -> None:
    store = MemoryStore(max_bytes=1_000, max_value_bytes=300)
    for key, size in writes:
        await store.set(key, b"x" * size, 60)
        assert 0 <= store.bytes_held <= 1_000
    held = [value for value in await store.get_many("abcdef") if value is not None]
    assert store.bytes_held == sum(len(value) + 1 + ENTRY_OVERHEAD for value in held)
