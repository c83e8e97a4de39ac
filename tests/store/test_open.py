"""Which store a configuration gets."""

from __future__ import annotations

import pytest

from trimtab.errors import ConfigError
from trimtab.store.memory import MemoryStore
from trimtab.store.open import open_store
from trimtab.store.redis import RedisStore
from trimtab.store.settings import RedisSettings

pytestmark = pytest.mark.anyio


async def test_without_redis_it_is_this_process() -> None:
    assert isinstance(open_store(None), MemoryStore)


async def test_with_redis_it_is_shared_and_nothing_is_connected_yet() -> None:
    store = open_store(RedisSettings(url="redis://127.0.0.1:1"))
    assert isinstance(store, RedisStore)
    await store.aclose()


async def test_errors_are_told_in_a_word() -> None:
    told: list[str] = []
    store = open_store(RedisSettings(url="redis://127.0.0.1:1"), 64, told.append)
    assert not await store.ping()
    assert told == ["connection"]
    await store.aclose()


async def test_a_wrong_address_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError):
        open_store(RedisSettings(url="mysql://x"))
