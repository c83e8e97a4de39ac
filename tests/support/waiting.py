"""Waiting for a condition instead of sleeping for a guess."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


async def eventually(holds: Callable[[], bool | Awaitable[bool]], within_s: float = 10.0) -> None:
    """Return as soon as `holds()` gives True; fail after `within_s` seconds."""
    async with asyncio.timeout(within_s):
        while True:
            held = holds()
            if held if isinstance(held, bool) else await held:
                return
            await asyncio.sleep(0.005)
