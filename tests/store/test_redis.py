"""What goes wrong with a shared store, with real servers that are killed, frozen, filled and moved, and with servers
that speak something else.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.valkey import Cluster, Valkey, Watched, free_port, tls_in_front, until
from tests.support.waiting import eventually
from trimtab.store.memory import MemoryStore
from trimtab.store.redis import RedisStore
from trimtab.store.settings import RedisSettings

pytestmark = pytest.mark.anyio


class Seen:
    """A store with its errors counted, and a second store in the place of another replica's."""

    def __init__(self, url: str) -> None:
        self.errors: Counter[str] = Counter()
        self.here = RedisStore(RedisSettings(url=url), MemoryStore(), lambda cause: self.errors.update([cause]))
        self.there = RedisStore(RedisSettings(url=url, timeout_ms=1_000), MemoryStore())

    async def __aenter__(self) -> Seen:
        await self.here.ping()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.here.aclose()
        await self.there.aclose()


@pytest.fixture
async def own() -> AsyncIterator[Valkey]:
    """A server of this test alone, to do violence to."""
    server = Valkey()
    yield server
    server.thaw()
    server.stop()


async def recovered(seen: Seen, within_s: float = 15.0) -> float:
    """Seconds until what this store writes is read by the other replica."""
    start = time.monotonic()

    async def shared() -> bool:
        value = str(time.monotonic()).encode()
        await seen.here.set("recovery", value, 60)
        return await seen.there.get("recovery") == value

    await eventually(shared, within_s)
    return time.monotonic() - start


async def reads(store: RedisStore, keys: list[str], expected: list[bytes]) -> bool:
    return await store.get_many(keys) == expected


async def cost_of(store: RedisStore, calls: int) -> float:
    """Seconds that `calls` reads in a row take."""
    start = time.monotonic()
    for n in range(calls):
        await store.get(f"cost-{n}")
    return time.monotonic() - start


async def test_it_starts_without_a_server_and_finds_it_later() -> None:
    port = free_port()
    async with Seen(f"redis://127.0.0.1:{port}") as seen:
        assert not await seen.here.ping()
        assert await cost_of(seen.here, 100) < 0.4
        server = Valkey(port=port)
        try:
            assert await recovered(seen) < 8
        finally:
            server.stop()


async def test_a_killed_server_costs_nothing_and_is_found_again(own: Valkey) -> None:
    async with Seen(f"redis://{own.address}") as seen:
        await seen.here.set("k", b"v", 60)
        own.kill()
        assert await cost_of(seen.here, 100) < 0.4
        assert await seen.here.get("k") == b"v"  # this replica's own copy
        assert seen.errors["connection"] >= 1
        own.start()
        assert await recovered(seen) < 8


async def test_a_frozen_server_costs_two_waits_at_most(own: Valkey) -> None:
    async with Seen(f"redis://{own.address}") as seen:
        own.freeze()
        assert await cost_of(seen.here, 100) < 0.4  # 50 + 25 + 12.5 ms by design; a hundred waits would be 5 s
        assert seen.errors == {"timeout": 3}
        own.thaw()
        assert await recovered(seen) < 8


async def test_many_requests_meet_a_frozen_server_together(own: Valkey) -> None:
    async with Seen(f"redis://{own.address}") as seen:
        own.freeze()
        start = time.monotonic()
        values = await asyncio.gather(*(seen.here.get(f"k{n}") for n in range(500)))
        assert time.monotonic() - start < 2  # one wait for all, not one after the other
        assert values == [None] * 500


async def test_a_server_that_forgot_is_given_back_what_this_replica_knows(own: Valkey) -> None:
    async with Seen(f"redis://{own.address}") as seen:
        await seen.here.set("k", b"v", 60)
        own.client().flushall()
        assert await seen.here.get("k", keep_s=60) == b"v"
        await eventually(lambda: reads(seen.there, ["k"], [b"v"]))  # it is written back in the background


async def test_while_the_server_is_away_there_is_still_one_lock_in_the_process(own: Valkey) -> None:
    async with Seen(f"redis://{own.address}") as seen:
        own.kill()
        assert await seen.here.lock("l", "mine", 60)
        assert not await seen.here.lock("l", "yours", 60)


async def test_a_full_server_still_answers_reads() -> None:
    server = Valkey(maxmemory_policy="noeviction")
    try:
        async with Seen(f"redis://{server.address}") as seen:
            await seen.here.set("before", b"v", 60)
            server.client().config_set("maxmemory", 1)
            await seen.here.set("after", b"v", 60)
            assert await seen.there.get("before", keep_s=60) == b"v"
            assert await seen.here.get("after") is None  # not in the server
            assert await seen.here.get("after", keep_s=60) == b"v"  # this replica's own copy
            assert seen.errors["refused"] >= 1
            server.client().config_set("maxmemory", 0)
            assert await recovered(seen) < 1  # the breaker never opened
    finally:
        server.stop()


@pytest.mark.parametrize("kind", ["list", "hash"])
async def test_a_key_of_another_type_is_a_miss_and_is_written_over(valkey: Valkey, kind: str) -> None:
    async with Seen(f"redis://{valkey.address}") as seen:
        valkey.client().lpush("k", "x") if kind == "list" else valkey.client().hset("k", "x", "y")
        await seen.here.set("other", b"o", 60)
        assert await seen.here.get_many(["k", "other"]) == [None, b"o"]
        await seen.here.set("k", b"v", 60)
        assert await seen.there.get("k") == b"v"


async def test_a_server_with_a_private_authority_needs_its_ca_file(valkey: Valkey, tmp_path: Path) -> None:
    async with tls_in_front(valkey, tmp_path) as (address, authority):
        errors: list[str] = []
        for ca_file, answers in ((str(authority), True), (None, False)):
            settings = RedisSettings(url=f"rediss://{address}", ca_file=ca_file, timeout_ms=1_000)
            store = RedisStore(settings, MemoryStore(), errors.append)
            assert await store.ping() is answers
            await store.set("k", b"v", 60)
            await store.aclose()
    assert valkey.client().get("k") == b"v"
    assert set(errors) == {"connection"}


async def test_a_foreign_value_of_five_megabytes_is_a_miss(valkey: Valkey) -> None:
    async with Seen(f"redis://{valkey.address}") as seen:
        valkey.client().set("k", b"x" * (5 << 20))
        assert await seen.there.get("k") is None


async def test_a_lock_without_an_end_is_taken_over(valkey: Valkey) -> None:
    async with Seen(f"redis://{valkey.address}") as seen:
        valkey.client().set("l", "garbage")
        assert await seen.here.lock("l", "mine", 60)


GARBAGE = {
    "not RESP": b"HTTP/1.1 400 Bad Request\r\n\r\n<html>",
    "noise": bytes(range(256)) * 20,
    "a bulk string without an end": b"$999999999\r\nabc",
    "an error": b"-ERR what is this\r\n" * 50,
    "a flood of the wrong answers": b"*3\r\n:1\r\n:2\r\n:3\r\n" * 50,
    "nothing, and goodbye": b"",
}


@pytest.mark.parametrize("answer", GARBAGE.values(), ids=GARBAGE.keys())
async def test_a_server_that_talks_garbage_is_a_miss(answer: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):  # the client has heard enough
            while await reader.read(65_536):
                writer.write(answer)
                if not answer:
                    break
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Seen(f"redis://127.0.0.1:{port}") as seen:
        async with asyncio.timeout(10):
            for _ in range(10):
                assert await seen.here.get("k") is None
                await seen.here.set("other", b"v", 60)
                assert await seen.here.lock("l", "mine", 60) in (True, False)
        assert seen.errors


async def test_a_slow_server_is_a_miss_in_time() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65_536):
            await asyncio.sleep(0.5)  # what makes this server slow
            writer.write(b"+OK\r\n")
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Seen(f"redis://127.0.0.1:{port}") as seen:
        assert await cost_of(seen.here, 50) < 0.4


async def test_the_answer_of_a_call_given_up_never_reaches_another(own: Valkey) -> None:
    async with Seen(f"redis://{own.address}") as seen:
        for n in range(20):
            await seen.here.set(f"k{n}", b"%d" % n, 60)
        for _ in range(3):
            own.freeze()
            for n in range(20):
                await seen.here.get(f"k{n}")
            own.thaw()
            await recovered(seen)
            values = await asyncio.gather(*(seen.here.get(f"k{n}", keep_s=60) for n in range(20)))
            assert values == [b"%d" % n for n in range(20)]


@pytest.mark.parametrize("fault", ["kill", "freeze"])
async def test_sentinel_moves_the_primary(fault: str) -> None:
    servers = Watched()
    try:
        async with Seen(servers.url) as seen:
            await seen.here.set("k", b"v", 600)
            until(lambda: servers.replica.client().get("k") == b"v")
            getattr(servers.primary, fault)()
            assert await cost_of(seen.here, 50) < 0.4
            assert await recovered(seen, within_s=30) < 30
            assert servers.replica.client().get("recovery") is not None
            assert await seen.there.get("k", keep_s=60) == b"v"
    finally:
        servers.primary.thaw()
        servers.stop()


@pytest.mark.parametrize("fault", ["kill", "freeze"])
async def test_a_cluster_moves_a_shard(fault: str) -> None:
    servers = Cluster(replicas=True)
    try:
        async with Seen(servers.url) as seen:
            keys = [f"k{n}" for n in range(30)]
            for key in keys:
                await seen.here.set(key, key.encode(), 600)
            lost = servers.owner("recovery")
            until(servers.replicated)
            getattr(lost, fault)()
            assert await cost_of(seen.here, 50) < 0.4
            assert await recovered(seen, within_s=30) < 30
            expected = [key.encode() for key in keys]
            await eventually(lambda: reads(seen.there, keys, expected))  # it has to learn of the move first
    finally:
        for node in servers.nodes:
            node.thaw()
        servers.stop()
