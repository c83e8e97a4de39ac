"""The table `[redis]`, and the store it asks for. Left out, the store is in this process.

Redis's client is imported only where it is used: it takes 25 MB and half the time of a start.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from trimtab.store.memory import MemoryStore
from trimtab.store.protocol import Store
from trimtab.units import Count


class RedisSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where summaries, factors and lessons are shared. Needs Redis 6.2 or newer (GETEX), or Valkey."""

    url: str  # redis://, rediss://, redis+sentinel://host:port,host:port/name, redis+cluster://: see `redis_url`
    ca_file: str | None = None  # of a private CA, in PEM, trusted beside the system's own; needs a rediss:// address
    timeout_ms: Count = 50  # an answer later than this is a miss
    max_connections: Count = 32  # calls in flight, per process
    max_value_kb: Count = 256  # KiB; a larger value is not stored, and not accepted when read

    def __repr__(self) -> str:
        return f"RedisSettings(url='{self.url.partition('://')[0]}://…')"  # the address may hold a password


def open_store(
    redis: RedisSettings | None,
    memory_mb: int = 64,
    on_error: Callable[[str], None] = lambda cause: None,
    on_change: Callable[[bool, str], None] = lambda answers, cause: None,
) -> Store:
    """The store to use. Nothing is connected yet: `ping` connects.

    `memory_mb` bounds the values held in this process, in MiB. `on_error` gets one word for each failed call:
    timeout, connection, refused, protocol, cluster; `on_change` is called when Redis is left alone after failures
    (False, and the last cause) and when it is used again (True). Raises ConfigError for an address or a `ca_file` that
    cannot be used.
    """
    max_value_kb = redis.max_value_kb if redis else RedisSettings(url="").max_value_kb
    memory = MemoryStore(memory_mb << 20, max_value_kb << 10)
    if redis is None:
        return memory
    from trimtab.store.redis import RedisStore

    return RedisStore(redis, memory, on_error, on_change)
