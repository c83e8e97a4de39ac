"""Work beside the requests: bounded, one job a key, ended cleanly at shutdown.

What does not find a place is not queued: the next request of the conversation asks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any


class Background:
    def __init__(self, most: int) -> None:
        self._most = most
        self._jobs: dict[str, asyncio.Task[None]] = {}
        self._closed = False

    def start(self, key: str, job: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Run `job` beside the requests. False when it is not: one with this key runs, all places are
        taken, or the process is shutting down.
        """
        if self._closed or key in self._jobs or len(self._jobs) >= self._most:
            return False
        task = self._jobs[key] = asyncio.create_task(job())
        task.add_done_callback(lambda _: self._jobs.pop(key, None))
        return True

    async def drain(self, grace_s: float) -> None:
        """Start nothing more; let what runs end within `grace_s` seconds, then end it."""
        self._closed = True
        await ended(list(self._jobs.values()), grace_s)


async def ended(tasks: Collection[asyncio.Task[Any]], grace_s: float) -> None:
    """Wait `grace_s` seconds for the tasks, cancel what is left, and return when all have ended."""
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=grace_s)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late)
