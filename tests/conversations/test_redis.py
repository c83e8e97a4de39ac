"""What is particular to the archive in Redis: a server that goes away, and one that is full."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.valkey import Valkey
from trimtab.conversations.archive import Log
from trimtab.conversations.redis import RedisArchive
from trimtab.errors import StoreUnavailable
from trimtab.store.settings import RedisSettings

pytestmark = pytest.mark.anyio


async def test_a_server_that_is_down_is_unavailable_and_soon_at_once() -> None:
    server = Valkey()
    causes: list[str] = []
    archive = RedisArchive(RedisSettings(url=f"redis://{server.address}/0"), causes.append)
    assert await archive.append("log", [b"one"], 0, 60)
    server.kill()
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await archive.append("log", [b"two"], 1, 60)
    with pytest.raises(StoreUnavailable):
        await archive.read("log", 0, 60)
    assert causes == ["connection"] * 3  # the fourth call did not try
    server.start()
    await asyncio.sleep(0.6)
    assert await archive.append("log", [b"again"], 0, 60)
    assert await archive.ping()
    await archive.aclose()
    server.stop()


async def test_a_server_that_is_full_refuses_and_is_asked_again() -> None:
    server = Valkey(maxmemory_policy="noeviction")
    archive = RedisArchive(RedisSettings(url=f"redis://{server.address}/0"))
    assert await archive.append("log", [b"one"], 0, 60)
    server.client().config_set("maxmemory", "1")
    for _ in range(5):
        with pytest.raises(StoreUnavailable):
            await archive.append("log", [b"two", b"three"], 1, 60)
    assert await archive.read("log", 0, 60) == Log(1, b"one", [b"one"])
    server.client().config_set("maxmemory", "0")
    assert await archive.append("log", [b"two", b"three"], 1, 60)
    await archive.aclose()
    server.stop()


async def test_a_call_whose_caller_left_is_carried_out(valkey: Valkey) -> None:
    archive = RedisArchive(RedisSettings(url=f"redis://{valkey.address}/0"))
    await archive.ping()
    call = asyncio.create_task(archive.append("log", [b"one"], 0, 60))
    await asyncio.sleep(0)
    call.cancel()
    await archive.aclose()
    assert valkey.client().llen("log") == 1
