"""Work that several requests share, and work in the background. It goes on when a request that asked for it ends.

`Flights` is a single flight: a value is made once, however many ask for it at the same time, in this process and in
others. Here all callers wait for one task, and one that gives up does not end it. Across replicas the task holds a lock
in the store; it renews the lock while it works, and after a crash the lock soon ends by itself. A replica that finds
the lock taken checks, at growing intervals, whether the value is there or the lock is free.

`Background` bounds what is started ahead of need. Work that finds no free place is not queued: the next request of the
conversation asks again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, Generic, TypeVar

import msgspec

from trimtab.store.keys import lock_key
from trimtab.store.protocol import Store

T = TypeVar("T")
Make = Callable[[], Awaitable[T]]
Find = Callable[[], Awaitable[T | None]]

LOCK_S = 6.0  # a crashed holder blocks others for no longer than this
RENEW_S = 2.0  # two renewals may be lost
POLL_FIRST_S, POLL_LAST_S, POLL_GROWTH = 0.02, 0.25, 1.5


class Joined(msgspec.Struct, Generic[T], frozen=True):
    """The value a flight made; `started` for the one caller that started the flight."""

    value: T
    started: bool


class Flights(Generic[T]):
    """The values being made now. `lock_s` is how long a lock lasts without renewal, in seconds."""

    def __init__(self, store: Store, lock_s: float = LOCK_S) -> None:
        self._store = store
        self._lock_s = lock_s
        self._tasks: dict[str, asyncio.Task[T]] = {}
        self._closed = False

    async def join(self, key: str, make: Make[T], find: Find[T], wait_s: float | None = None) -> Joined[T] | None:
        """The result of `make`, for everyone who asks for `key` while it runs. None when `wait_s` seconds passed
        before, or at shutdown.

        `find` checks whether another replica has made it. Raises what `make` raises.
        """
        started = key not in self._tasks
        if started and self._closed:
            return None
        task = self._start(key, make, find) if started else self._tasks[key]
        done, _ = await asyncio.wait({task}, timeout=wait_s)
        if not done or task.cancelled():
            return None
        return Joined(task.result(), started)

    async def drain(self, grace_s: float) -> None:
        """Start nothing more; wait `grace_s` seconds for what runs, then cancel it."""
        self._closed = True
        await _end(self._tasks.values(), grace_s)

    def _start(self, key: str, make: Make[T], find: Find[T]) -> asyncio.Task[T]:
        task = self._tasks[key] = asyncio.create_task(self._run(lock_key(key), make, find))
        task.add_done_callback(lambda _: self._tasks.pop(key, None))
        return task

    async def _run(self, lock: str, make: Make[T], find: Find[T]) -> T:
        token, pause_s = secrets.token_hex(8), POLL_FIRST_S
        while not await self._store.lock(lock, token, self._lock_s):
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * POLL_GROWTH, POLL_LAST_S)
            if (found := await find()) is not None:
                return found
        renewal = asyncio.create_task(self._renew(lock, token))
        try:
            found = await find()  # the last holder of the lock may have made it
            return await make() if found is None else found
        finally:
            renewal.cancel()
            await self._store.unlock(lock, token)

    async def _renew(self, lock: str, token: str) -> None:
        while True:
            await asyncio.sleep(self._lock_s * RENEW_S / LOCK_S)
            await self._store.lock(lock, token, self._lock_s)


class Background:
    """Up to `most` jobs at the same time, one for each key."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._jobs: dict[str, asyncio.Task[None]] = {}
        self._closed = False

    def start(self, key: str, job: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Run `job` in the background. False when it is not started: one with this key runs, all places are taken, or
        the process is shutting down.
        """
        if self._closed or key in self._jobs or len(self._jobs) >= self._most:
            return False
        task = self._jobs[key] = asyncio.create_task(job())
        task.add_done_callback(lambda _: self._jobs.pop(key, None))
        return True

    async def drain(self, grace_s: float) -> None:
        """Start nothing more; wait `grace_s` seconds for what runs, then cancel it."""
        self._closed = True
        await _end(self._jobs.values(), grace_s)


async def _end(running: Collection[asyncio.Task[Any]], grace_s: float) -> None:
    tasks = list(running)
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=grace_s)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late)
