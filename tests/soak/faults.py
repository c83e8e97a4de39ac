"""Redis goes through everything that can happen to it, in turn, while the load goes on."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.support.valkey import Valkey


async def torment(valkey: Valkey, done: Counter[str], every_s: float) -> None:
    """Freeze for some seconds, kill and revive, forget everything, drop every connection; forever."""
    while True:
        await asyncio.sleep(every_s)
        valkey.freeze()
        done["frozen"] += 1
        await asyncio.sleep(every_s / 4)
        valkey.thaw()
        await asyncio.sleep(every_s)
        valkey.kill()
        done["killed"] += 1
        await asyncio.sleep(every_s / 4)
        await asyncio.to_thread(valkey.start)
        await asyncio.sleep(every_s)
        await asyncio.to_thread(valkey.client().flushall)
        done["emptied"] += 1
        await asyncio.sleep(every_s)
        await asyncio.to_thread(valkey.client().execute_command, "CLIENT", "KILL", "TYPE", "normal")
        done["disconnected"] += 1
