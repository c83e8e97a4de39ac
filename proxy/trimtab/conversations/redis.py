"""The archive that all replicas share, in the Redis of `[redis]`.

A log is a list, and each change of it is one script on one key: it happens as a whole or not at all, also in a
cluster, and when this process is killed. A call is not cut short when its client leaves: a connection must not be left
with an answer that belongs to another call. After failures in a row calls are refused at once, for a short while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from trimtab.conversations.archive import Log
from trimtab.errors import StoreUnavailable
from trimtab.store.breaker import Breaker
from trimtab.store.redis import CAUSES, FAILURES, LOCK, UNLOCK
from trimtab.store.redis_url import connect
from trimtab.store.settings import RedisSettings

READ: Final = """
if redis.call('pexpire', KEYS[1], ARGV[2]) == 0 then return false end
return {redis.call('lindex', KEYS[1], 0), redis.call('lrange', KEYS[1], ARGV[1], -1)}
"""
APPEND: Final = """
if redis.call('llen', KEYS[1]) ~= tonumber(ARGV[1]) then return 0 end
for i = 3, #ARGV do redis.call('rpush', KEYS[1], ARGV[i]) end
redis.call('pexpire', KEYS[1], ARGV[2])
return 1
"""
REWRITE: Final = """
if redis.call('llen', KEYS[1]) ~= tonumber(ARGV[1]) then return 0 end
redis.call('lset', KEYS[1], ARGV[3], ARGV[4])
redis.call('rpush', KEYS[1], ARGV[5])
redis.call('pexpire', KEYS[1], ARGV[2])
return 1
"""


class RedisArchive:
    """An `Archive` in Redis 6.2 or newer, or Valkey. `on_error` gets the cause of each failed call, one word of
    `store.redis.CAUSES`. Raises ConfigError for an address or a `ca_file` that cannot be used."""

    def __init__(self, settings: RedisSettings, on_error: Callable[[str], None] = lambda cause: None) -> None:
        self._client = connect(settings)
        self._slots = asyncio.Semaphore(settings.max_connections)
        self._breaker, self._on_error = Breaker(), on_error
        self._running: set[asyncio.Task[Any]] = set()

    async def read(self, key: str, after: int, keep_s: float) -> Log | None:
        """See `Archive.read`."""
        found = await self._script(READ, key, after, _ms(keep_s))
        return None if not found else Log(after + len(found[1]), found[0], found[1])

    async def append(self, key: str, entries: Sequence[bytes], expected: int, ttl_s: float) -> bool:
        """See `Archive.append`."""
        return bool(await self._script(APPEND, key, expected, _ms(ttl_s), *entries))

    async def rewrite(self, key: str, at: int, entry: bytes, marker: bytes, expected: int, ttl_s: float) -> bool:
        """See `Archive.rewrite`."""
        return bool(await self._script(REWRITE, key, expected, _ms(ttl_s), at, entry, marker))

    async def remove(self, keys: Sequence[str]) -> int:
        """See `Archive.remove`."""
        return sum(await self._each([("unlink", key) for key in keys]))

    async def get_many(self, keys: Sequence[str], keep_s: float) -> list[bytes | None]:
        """See `Archive.get_many`."""
        return await self._each([("getex", key, "PX", _ms(keep_s)) for key in keys])

    async def keep(self, keys: Sequence[str], keep_s: float) -> None:
        """See `Archive.keep`."""
        await self._each([("pexpire", key, _ms(keep_s)) for key in keys])

    async def set_many(self, records: Mapping[str, bytes], ttl_s: float) -> None:
        """See `Archive.set_many`."""
        await self._each([("set", key, value, "PX", _ms(ttl_s)) for key, value in records.items()])

    async def lock(self, key: str, token: str, ttl_s: float) -> bool:
        """See `Archive.lock`."""
        return bool(await self._script(LOCK, key, token, _ms(ttl_s)))

    async def unlock(self, key: str, token: str) -> None:
        """See `Archive.unlock`."""
        await self._script(UNLOCK, key, token)

    async def ping(self) -> bool:
        """See `Archive.ping`."""
        try:
            return bool(await self._call(lambda: self._client.ping()))
        except StoreUnavailable:
            return False

    async def aclose(self) -> None:
        """Wait for the calls under way, then close the connections."""
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._client.aclose()

    async def _script(self, script: str, key: str, *args: bytes | str | int) -> Any:
        return await self._call(lambda: self._client.eval(script, 1, key, *args))

    async def _each(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """One command for each key, in one round trip."""

        async def work() -> list[Any]:
            pipe = self._client.pipeline(transaction=False)
            for command in commands:
                pipe.execute_command(*command)
            return list(await pipe.execute())

        return await self._call(work) if commands else []

    async def _call(self, work: Callable[[], Awaitable[Any]]) -> Any:
        if not self._breaker.admits():
            raise _unavailable()
        task = asyncio.create_task(self._guarded(work))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _guarded(self, work: Callable[[], Awaitable[Any]]) -> Any:
        async with self._slots:
            try:
                answer = await work()
            except FAILURES as error:
                cause = next(word for kind, word in CAUSES if isinstance(error, kind))
                self._on_error(cause)
                if cause == "refused":  # the server answers: it is full, or read only
                    self._breaker.succeeded()
                else:
                    self._breaker.failed()
                raise _unavailable() from error
        self._breaker.succeeded()
        return answer


def _unavailable() -> StoreUnavailable:
    return StoreUnavailable("The store of conversations does not answer. Try again in a moment.")


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
