"""The contract of a store, against every implementation and every kind of server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.waiting import eventually
from trimtab.store.protocol import Store
from trimtab.store.settings import RedisSettings, open_store

pytestmark = pytest.mark.anyio

KINDS = ("memory", "standalone", "cluster", "sentinel")


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    opened = open_store(_redis(request))
    assert await opened.ping()
    yield opened
    await opened.aclose()


def _redis(request: pytest.FixtureRequest) -> RedisSettings | None:
    match request.param:
        case "memory":
            return None
        case "standalone":
            url = f"redis://{request.getfixturevalue('valkey').address}/0"
        case "cluster":
            url = request.getfixturevalue("cluster").url
        case "sentinel":
            url = request.getfixturevalue("watched").url
    return RedisSettings(url=url, timeout_ms=10_000)  # the contract is not about speed


async def gone(store: Store, key: str) -> bool:
    return await store.get(key) is None


async def test_what_was_set_is_read(store: Store) -> None:
    await store.set("k", b"\x00value\xff", 60)
    assert await store.get("k") == b"\x00value\xff"


async def test_what_was_never_set_is_a_miss(store: Store) -> None:
    assert await store.get("nothing") is None


async def test_a_second_set_replaces_the_first(store: Store) -> None:
    await store.set("k", b"one", 60)
    await store.set("k", b"two", 60)
    assert await store.get("k") == b"two"


async def test_many_are_read_in_their_order(store: Store) -> None:
    for n in range(0, 40, 2):
        await store.set(f"k{n}", b"%d" % n, 60)
    assert await store.get_many([f"k{n}" for n in range(40)]) == [None if n % 2 else b"%d" % n for n in range(40)]


async def test_many_of_nothing_is_nothing(store: Store) -> None:
    assert await store.get_many([]) == []


async def test_a_value_ends_with_its_time(store: Store) -> None:
    await store.set("k", b"v", 0.05)
    await eventually(lambda: gone(store, "k"))


async def test_reading_with_keep_s_prolongs_a_value_and_plain_reading_does_not(store: Store) -> None:
    await store.set("prolonged", b"v", 0.2)
    await store.set("read", b"v", 0.2)
    assert await store.get_many(["prolonged", "other"], keep_s=60) == [b"v", None]
    assert await store.get("read") == b"v"
    await eventually(lambda: gone(store, "read"), within_s=2)
    assert await store.get("prolonged") == b"v"


async def test_a_value_above_the_bound_is_not_kept(store: Store) -> None:
    await store.set("k", b"x" * (257 << 10), 60)
    assert await store.get("k") is None


async def test_a_lock_has_one_holder(store: Store) -> None:
    assert await store.lock("l", "mine", 60)
    assert not await store.lock("l", "yours", 60)
    assert await store.lock("l", "mine", 60)


async def test_a_lock_given_back_is_free(store: Store) -> None:
    assert await store.lock("l", "mine", 60)
    await store.unlock("l", "mine")
    assert await store.lock("l", "yours", 60)


async def test_nobody_gives_back_a_lock_of_another(store: Store) -> None:
    assert await store.lock("l", "mine", 60)
    await store.unlock("l", "yours")
    assert not await store.lock("l", "yours", 60)


async def test_a_lock_of_a_crashed_holder_ends_by_itself(store: Store) -> None:
    assert await store.lock("l", "mine", 0.05)
    await eventually(lambda: store.lock("l", "yours", 60))


async def test_renewing_a_lock_prolongs_it(store: Store) -> None:
    assert await store.lock("l", "mine", 0.1)
    assert await store.lock("l", "mine", 60)
    assert await store.lock("without renewal", "mine", 0.1)
    await eventually(lambda: store.lock("without renewal", "yours", 60))
    assert not await store.lock("l", "yours", 60)


async def test_fifty_callers_at_once_get_one_lock(store: Store) -> None:
    won = await asyncio.gather(*(store.lock("l", f"caller-{n}", 60) for n in range(50)))
    assert sum(won) == 1


async def test_two_hundred_calls_at_once_are_all_answered(store: Store) -> None:
    await asyncio.gather(*(store.set(f"k{n}", b"%d" % n, 60) for n in range(200)))
    values = await asyncio.gather(*(store.get(f"k{n}") for n in range(200)))
    assert values == [b"%d" % n for n in range(200)]
