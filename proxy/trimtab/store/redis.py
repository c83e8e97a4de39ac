"""The store that all replicas share. A call that fails or is late is a miss, never an error and never a wait.

- A call has `timeout_s`; each failure halves the time of the next, so that all of them together take less than twice
  that. Then the breaker opens and calls cost nothing; a ping in the background closes it again.
- A call that is late is left to end by itself: a call cancelled in flight can leave its connection with an answer that
  belongs to another call. It holds one of `max_connections` slots until then, so a frozen server cannot collect calls.
- While the server is away, a `MemoryStore` is used instead. It holds a copy of what this replica wrote, and gives it
  back to a server that comes up empty.
- An error the server answers with (full, wrong type, read only) is a miss for that call alone: it was quick.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisClusterException, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from trimtab.store.breaker import Breaker
from trimtab.store.memory import MemoryStore
from trimtab.store.redis_url import connect
from trimtab.store.settings import RedisSettings

GRACE_S = 0.002  # a few turns of the event loop
PING_S = 2.5  # the longest a ping may take: a connection and one round trip

# What went wrong, in the words of the metric; the first class that fits.
CAUSES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (RedisTimeoutError, "timeout"),
    (RedisConnectionError, "connection"),
    (ResponseError, "refused"),
    (RedisError, "protocol"),
    (RedisClusterException, "cluster"),
    (OSError, "connection"),
    (ValueError, "protocol"),  # what the parser raises for an answer that is not RESP
)
FAILURES: Final = tuple(kind for kind, _ in CAUSES)
QUICK: Final = frozenset({"refused"})

# A lock without an end was not set by us and would never go away: it does not count.
LOCK = """
local held = redis.call('get', KEYS[1])
if held and held ~= ARGV[1] and redis.call('pttl', KEYS[1]) >= 0 then return 0 end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class _Failed:
    """A call without an answer; `cause` is None when it was not tried."""

    def __init__(self, cause: str | None = None) -> None:
        self.cause = cause


class RedisStore:
    """A `Store` in Redis, with `memory` while the server is away."""

    def __init__(
        self,
        settings: RedisSettings,
        memory: MemoryStore,
        on_error: Callable[[str], None] = lambda cause: None,
        on_change: Callable[[bool, str], None] = lambda answers, cause: None,
    ) -> None:
        """`on_error` gets the cause of each failed call, one word of `CAUSES`; `on_change` is called when the server
        is left alone after failures (False, and the last cause), and when it is used again. Raises ConfigError for an
        address or a `ca_file` that cannot be used.
        """
        self._client = connect(settings)
        self._memory = memory
        self._timeout = settings.timeout_ms / 1000
        self._slots = asyncio.Semaphore(settings.max_connections)
        self._max_value = settings.max_value_kb << 10
        self._on_error, self._on_change = on_error, on_change
        self._breaker = Breaker(forget_s=1.0)
        self._running: set[asyncio.Task[Any]] = set()

    async def get(self, key: str, keep_s: float | None = None) -> bytes | None:
        """See `get_many`."""
        return (await self.get_many((key,), keep_s))[0]

    async def get_many(self, keys: Sequence[str], keep_s: float | None = None) -> list[bytes | None]:
        """The values in the order of `keys`. What the server lost comes from this replica's copy."""
        answer = await self._call(lambda: self._read(keys, keep_s))
        if isinstance(answer, _Failed):
            return await self._memory.get_many(keys, keep_s)
        values = [self._accepted(value) for value in answer]
        return [value or await self._restored(key, keep_s) for key, value in zip(keys, values, strict=True)]

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        """Keep `value` on the server, and a copy here."""
        await self._memory.set(key, value, ttl_s)
        if len(value) <= self._max_value:
            await self._call(lambda: self._client.set(key, value, px=_ms(ttl_s)))

    async def lock(self, key: str, token: str, ttl_s: float) -> bool:
        """Take or renew the lock; while the server is away, a lock among the callers of this process."""
        answer = await self._call(lambda: self._script(LOCK, key, token, _ms(ttl_s)))
        if isinstance(answer, _Failed):
            return await self._memory.lock(key, token, ttl_s)
        return bool(answer)

    async def unlock(self, key: str, token: str) -> None:
        """Free the lock, here and on the server."""
        await self._memory.unlock(key, token)
        await self._call(lambda: self._script(UNLOCK, key, token))

    async def ping(self) -> bool:
        """True when the server answers now; it gets time to connect. The breaker learns from it."""
        task = self._start(lambda: self._client.ping())
        return not isinstance(await self._outcome(task, PING_S), _Failed)

    @property
    def answering(self) -> bool:
        """True while Redis is used; False while the breaker leaves it alone after failures."""
        return self._breaker.closed

    async def aclose(self) -> None:
        """End all calls and close the connections."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._client.aclose()
        await self._memory.aclose()

    # -- one call ------------------------------------------------------------------------------------------

    async def _call(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """The answer to `work`, or a `_Failed`."""
        if not self._breaker.closed:
            if self._breaker.admits():
                self._keep(asyncio.create_task(self.ping()))
            return _Failed()
        return await self._outcome(self._start(work), self._timeout / 2.0**self._breaker.failures)

    async def _outcome(self, task: asyncio.Task[Any], wait_s: float) -> Any:
        done, _ = await asyncio.wait({task}, timeout=wait_s)
        if not done:  # perhaps this process was late: let it read what has arrived
            done, _ = await asyncio.wait({task}, timeout=GRACE_S)
        answer = task.result() if done else _Failed("timeout")
        answered, cause = not isinstance(answer, _Failed), answer.cause if isinstance(answer, _Failed) else None
        if cause is not None:
            self._on_error(cause)
        used = self._breaker.closed
        if answered:
            self._breaker.succeeded()
        elif cause is not None and cause not in QUICK:
            self._breaker.failed()
        if self._breaker.closed != used:
            self._on_change(self._breaker.closed, cause or "")
        return answer

    def _start(self, work: Callable[[], Awaitable[Any]]) -> asyncio.Task[Any]:
        return self._keep(asyncio.create_task(self._guarded(work)))

    def _keep(self, task: asyncio.Task[Any]) -> asyncio.Task[Any]:
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _guarded(self, work: Callable[[], Awaitable[Any]]) -> Any:
        async with self._slots:
            try:
                return await work()
            except FAILURES as error:
                return _Failed(_cause(error))

    # -- what is called ------------------------------------------------------------------------------------

    async def _read(self, keys: Sequence[str], keep_s: float | None) -> list[Any]:
        pipe = self._client.pipeline(transaction=False)
        for key in keys:
            pipe.getex(key, px=None if keep_s is None else _ms(keep_s))
        values: list[Any] = await pipe.execute(raise_on_error=False)
        if values and all(isinstance(value, FAILURES) for value in values):
            raise values[0]  # not one shard answered
        return values

    async def _script(self, script: str, key: str, *args: str | int) -> Any:
        return await self._client.eval(script, 1, key, *args)

    def _accepted(self, value: Any) -> bytes | None:
        """The value as it was read, unless it is an error of its shard or larger than anything we store."""
        if isinstance(value, bytes) and len(value) <= self._max_value:
            return value
        if value is not None:
            self._on_error(_cause(value) if isinstance(value, FAILURES) else "protocol")
        return None

    async def _restored(self, key: str, keep_s: float | None) -> bytes | None:
        """This replica's copy, for a server that lost its memory; written back in the background."""
        if keep_s is None:  # only values that live by being read are kept: any other is gone for a reason
            return None
        value = await self._memory.get(key, keep_s)
        if value is not None:
            self._start(lambda: self._client.set(key, value, px=_ms(keep_s), nx=True))
        return value


def _cause(error: Exception) -> str:
    return next(cause for kind, cause in CAUSES if isinstance(error, kind))


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
