"""The store that all replicas share. A call that fails or is late is a miss, never an error and never a wait.

- A call has `timeout_s`; every failure halves the time of the next, so that all of them together cost less
  than twice that. Then the breaker opens and calls cost nothing; a probe beside the requests closes it
  again.
- A call that is late is left to end by itself: cancelling one in flight can leave its connection with an
  answer that belongs to someone else. It holds one of `slots` until then, so a frozen server cannot collect
  calls.
- While the server is away the `spare`, a store in this process, stands in. It holds a copy of what this
  replica wrote, and gives it back to a server that comes up empty.
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

LOOK_S = 0.002  # a few turns of the event loop
PROBE_S = 2.5  # the longest a probe may take: a connection and one round trip

# What went wrong, in the words of the metric; the first class that fits.
CAUSES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (RedisTimeoutError, "timeout"),
    (RedisConnectionError, "connection"),
    (ResponseError, "refused"),
    (RedisError, "protocol"),
    (RedisClusterException, "cluster"),
    (OSError, "connection"),
    (ValueError, "protocol"),  # what the parser makes of an answer that is not RESP
)
FAILURES: Final = tuple(kind for kind, _ in CAUSES)
QUICK: Final = frozenset({"refused"})

# A lock without an end was not set by us, and would never go away: it does not count.
LOCK = """
local held = redis.call('get', KEYS[1])
if held and held ~= ARGV[1] and redis.call('pttl', KEYS[1]) >= 0 then return 0 end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class _Failed:
    """What a call comes to when it gives no answer; `cause` is None when it was not even tried."""

    def __init__(self, cause: str | None = None) -> None:
        self.cause = cause


class RedisStore:
    def __init__(
        self,
        settings: RedisSettings,
        spare: MemoryStore,
        on_error: Callable[[str], None] = lambda cause: None,
        breaker: Breaker | None = None,
    ) -> None:
        """`on_error` is told every failed call, by one word of `CAUSES`. Raises ConfigError for a bad
        address.
        """
        self._client = connect(settings)
        self._spare = spare
        self._timeout = settings.timeout_ms / 1000
        self._slots = asyncio.Semaphore(settings.max_connections)
        self._max_value = settings.max_value_kb << 10
        self._on_error = on_error
        self._breaker = breaker or Breaker(forget_s=1.0)
        self._running: set[asyncio.Task[Any]] = set()

    async def get(self, key: str, keep_s: float | None = None) -> bytes | None:
        return (await self.get_many((key,), keep_s))[0]

    async def get_many(self, keys: Sequence[str], keep_s: float | None = None) -> list[bytes | None]:
        answer = await self._call(lambda: self._read(keys, keep_s))
        if isinstance(answer, _Failed):
            return await self._spare.get_many(keys, keep_s)
        believed = [self._believe(value) for value in answer]
        return [value or await self._restore(key, keep_s) for key, value in zip(keys, believed, strict=True)]

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        await self._spare.set(key, value, ttl_s)
        if len(value) <= self._max_value:
            await self._call(lambda: self._client.set(key, value, px=_ms(ttl_s)))

    async def lock(self, key: str, token: str, ttl_s: float) -> bool:
        answer = await self._call(lambda: self._script(LOCK, key, token, _ms(ttl_s)))
        if isinstance(answer, _Failed):
            return await self._spare.lock(key, token, ttl_s)
        return bool(answer)

    async def unlock(self, key: str, token: str) -> None:
        await self._spare.unlock(key, token)
        await self._call(lambda: self._script(UNLOCK, key, token))

    async def ping(self) -> bool:
        """Whether the server answers now, given time to connect. Tells the breaker, so it is also the
        probe.
        """
        task = self._start(lambda: self._client.ping())
        return not isinstance(await self._outcome(task, PROBE_S), _Failed)

    @property
    def answering(self) -> bool:
        """Whether Redis is used at this moment: false while it is left alone after failures."""
        return self._breaker.closed

    async def aclose(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._client.aclose()
        await self._spare.aclose()

    # -- one call ------------------------------------------------------------------------------------------

    async def _call(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """What `work` gives, or a `_Failed`."""
        if not self._breaker.closed:
            if self._breaker.admits():
                self._keep(asyncio.create_task(self.ping()))
            return _Failed()
        return await self._outcome(self._start(work), self._timeout / 2.0**self._breaker.suspicion)

    async def _outcome(self, task: asyncio.Task[Any], patience_s: float) -> Any:
        done, _ = await asyncio.wait({task}, timeout=patience_s)
        if not done:  # perhaps it was this process that was late: let it look at what has arrived
            done, _ = await asyncio.wait({task}, timeout=LOOK_S)
        answer = task.result() if done else _Failed("timeout")
        if not isinstance(answer, _Failed):
            self._breaker.succeeded()
        elif answer.cause is not None:
            self._on_error(answer.cause)
            if answer.cause not in QUICK:
                self._breaker.failed()
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

    def _believe(self, value: Any) -> bytes | None:
        """The value as it was read, unless it is an error of its shard or larger than anything we store."""
        if isinstance(value, bytes) and len(value) <= self._max_value:
            return value
        if value is not None:
            self._on_error(_cause(value) if isinstance(value, FAILURES) else "protocol")
        return None

    async def _restore(self, key: str, keep_s: float | None) -> bytes | None:
        """The copy of this replica, for a server that lost its memory; given back beside the request."""
        if keep_s is None:  # not a value that is kept while it is used: its absence means something
            return None
        value = await self._spare.get(key, keep_s)
        if value is not None:
            self._start(lambda: self._client.set(key, value, px=_ms(keep_s), nx=True))
        return value


def _cause(error: Exception) -> str:
    return next(cause for kind, cause in CAUSES if isinstance(error, kind))


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
