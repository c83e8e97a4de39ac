"""Two replicas and one store."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.support.clock import Clock
from trimtab.limits import Caller, Limits
from trimtab.store.memory import MemoryStore

pytestmark = pytest.mark.anyio


async def nothing(upstream: str, path: str, body: bytes | None = None) -> bytes | None:
    return None


class Stuck:
    """A store that never answers."""

    async def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        await asyncio.Event().wait()
        return []

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        await asyncio.Event().wait()


async def test_a_second_replica_knows_what_the_first_learned() -> None:
    store = MemoryStore()
    one, other = Limits(store=store), Limits(store=store)
    one.observe("u", "gpt-4o", 10_000, 17_000)
    one.learn("u", "gpt-4o", 32_768, agreed=True)
    await one.aclose()
    limit = await other.limit_of("u", "gpt-4o", nothing)
    assert (limit.context_size, limit.source) == (32_768, "learned")
    assert other.factor("u", "gpt-4o") == one.factor("u", "gpt-4o") > 1.6
    await other.aclose()


async def test_a_factor_that_moves_reaches_the_other_within_a_sync() -> None:
    store, clock = MemoryStore(), Clock()
    one, other = Limits(store=store, clock=clock), Limits(store=store, clock=clock)
    for replica in (one, other):
        await replica.limit_of("u", "gpt-4o", nothing)
        replica.observe("u", "gpt-4o", 10_000, 10_000)
    one.observe("u", "gpt-4o", 12_000, 15_000)
    await one.aclose()
    clock.now += 31
    await other.limit_of("u", "gpt-4o", nothing)
    await other.aclose()
    assert other.factor("u", "gpt-4o") == one.factor("u", "gpt-4o")


async def test_a_disproved_lesson_is_taken_back() -> None:
    store = MemoryStore()
    one = Limits(store=store)
    one.learn("u", "gpt-4o", 32_768, agreed=True)
    one.observe("u", "gpt-4o", 50_000, 50_000)
    await one.aclose()
    assert (await Limits(store=store).limit_of("u", "gpt-4o", nothing)).source == "bundled"


async def test_one_tenants_lesson_is_not_shared() -> None:
    store = MemoryStore()
    one = Limits(store=store)
    one.learn("u", "gpt-4o", 32_768, Caller(b"alice"))
    one.learn("u", "gpt-4o", 32_768, Caller(b"bob", b"route"), agreed=True)
    await one.aclose()
    assert (await Limits(store=store).limit_of("u", "gpt-4o", nothing)).source == "bundled"


async def test_a_stuck_store_costs_a_short_wait_once() -> None:
    limits = Limits(store=Stuck())
    loop = asyncio.get_running_loop()
    start = loop.time()
    await limits.limit_of("u", "gpt-4o", nothing)
    first = loop.time() - start
    start = loop.time()
    for _ in range(50):
        await limits.limit_of("u", "gpt-4o", nothing)
    assert loop.time() - start < first
    await limits.aclose()
