"""What may stand in `[redis]`, and which store it gets."""

from __future__ import annotations

import msgspec
import pytest

from trimtab.errors import ConfigError
from trimtab.store.memory import MemoryStore
from trimtab.store.redis import RedisStore
from trimtab.store.settings import RedisSettings, open_store

pytestmark = pytest.mark.anyio


def test_the_documented_table_is_taken() -> None:
    table = msgspec.toml.decode(b'url = "rediss://localhost:6379/0"\nca_file = "ca.pem"')
    settings = msgspec.convert(table, RedisSettings)
    assert (settings.timeout_ms, settings.ca_file) == (50, "ca.pem")


def test_no_password_shows() -> None:
    assert "hidden" not in repr(RedisSettings(url="redis://u:hidden@h"))


async def test_without_redis_it_is_this_process() -> None:
    assert isinstance(open_store(None), MemoryStore)


async def test_with_redis_it_is_shared_and_nothing_is_connected_yet() -> None:
    store = open_store(RedisSettings(url="redis://127.0.0.1:1"))
    assert isinstance(store, RedisStore)
    await store.aclose()


async def test_each_failed_call_is_reported_in_one_word() -> None:
    reported: list[str] = []
    store = open_store(RedisSettings(url="redis://127.0.0.1:1"), 64, reported.append)
    assert not await store.ping()
    assert reported == ["connection"]
    await store.aclose()


async def test_a_wrong_address_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError):
        open_store(RedisSettings(url="mysql://x"))
