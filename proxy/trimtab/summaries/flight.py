"""Single flight: a thing is made once, however many ask for it at the same time, in this process and in
others.

In the process all callers wait for one task; a caller that gives up or goes away does not end it. Across
replicas the task holds a lock in the store, which it renews while it works and which runs out soon after it
crashed. A replica that finds the lock taken looks, at growing intervals, whether the thing is there or the
lock is free.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec

from trimtab.store.keys import lock_key
from trimtab.store.protocol import Store
from trimtab.summaries.background import ended

T = TypeVar("T")
Make = Callable[[], Awaitable[T]]
Ready = Callable[[], Awaitable[T | None]]

LOCK_S = 6.0  # a crashed holder blocks others for no longer than this
RENEW_S = 2.0  # two renewals may be lost
POLL_FIRST_S, POLL_LAST_S, POLL_GROWTH = 0.02, 0.25, 1.5


class Landed(msgspec.Struct, Generic[T], frozen=True):
    """What came of a flight; `led` for the one caller that started it."""

    value: T
    led: bool


class Flights(Generic[T]):
    def __init__(self, store: Store, lock_s: float = LOCK_S) -> None:
        self._store = store
        self._lock_s = lock_s
        self._tasks: dict[str, asyncio.Task[T]] = {}
        self._closed = False

    async def join(self, key: str, make: Make[T], ready: Ready[T], wait_s: float | None = None) -> Landed[T] | None:
        """What `make` gives, for everyone who asks for `key` meanwhile; None when `wait_s` passed before.

        `ready` looks whether another replica has made it. Raises what `make` raises.
        """
        led = key not in self._tasks
        if led and self._closed:
            return None
        task = self._start(key, make, ready) if led else self._tasks[key]
        done, _ = await asyncio.wait({task}, timeout=wait_s)
        if not done or task.cancelled():
            return None
        return Landed(task.result(), led)

    async def drain(self, grace_s: float) -> None:
        """Start nothing more; let what is under way end within `grace_s`, then end it."""
        self._closed = True
        await ended(list(self._tasks.values()), grace_s)

    def _start(self, key: str, make: Make[T], ready: Ready[T]) -> asyncio.Task[T]:
        task = self._tasks[key] = asyncio.create_task(self._fly(lock_key(key), make, ready))
        task.add_done_callback(lambda _: self._tasks.pop(key, None))
        return task

    async def _fly(self, name: str, make: Make[T], ready: Ready[T]) -> T:
        token, pause_s = secrets.token_hex(8), POLL_FIRST_S
        while not await self._store.lock(name, token, self._lock_s):
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * POLL_GROWTH, POLL_LAST_S)
            if (found := await ready()) is not None:
                return found
        renewal = asyncio.create_task(self._renew(name, token))
        try:
            found = await ready()  # whoever held the lock before may have made it
            return await make() if found is None else found
        finally:
            renewal.cancel()
            await self._store.unlock(name, token)

    async def _renew(self, name: str, token: str) -> None:
        while True:
            await asyncio.sleep(self._lock_s * RENEW_S / LOCK_S)
            await self._store.lock(name, token, self._lock_s)
