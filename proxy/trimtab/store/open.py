"""Which store a configuration asks for. The one place that knows all of them.

Redis's client is loaded only for those who have a Redis: it takes 25 MB and half the time of a start.
"""

from __future__ import annotations

from collections.abc import Callable

from trimtab.store.memory import MemoryStore
from trimtab.store.protocol import Store
from trimtab.store.settings import RedisSettings


def open_store(
    redis: RedisSettings | None,
    memory_mb: int = 64,
    on_error: Callable[[str], None] = lambda cause: None,
) -> Store:
    """The store to use; nothing is connected yet (`ping` connects, and returns whether it is shared).

    `memory_mb` bounds the values held in this process, in MiB. `on_error` gets one word for every failed call:
    timeout, connection, refused, protocol, cluster. Raises ConfigError for an unusable address.
    """
    max_value_kb = redis.max_value_kb if redis else RedisSettings(url="").max_value_kb
    memory = MemoryStore(memory_mb << 20, max_value_kb << 10)
    if redis is None:
        return memory
    from trimtab.store.redis import RedisStore

    return RedisStore(redis, memory, on_error)
