"""When this process searches itself for garbage.

Nearly everything is freed as soon as nobody holds it. What holds itself in a circle is found by Python's collector. A
search of all objects keeps everybody waiting, and Python would begin one just when a large request has made hundreds of
thousands of them: 50 to 200 ms, several times in such a request. So a full search is made here, while little is in
flight. It looks at what is remembered of conversations too: with 10 of 100,000 tokens it took 1 ms, with 100 of them
13 ms, with 300, when the memories are nearly full, 35 ms. The searches among new objects, which are short, stay
Python's.
"""

from __future__ import annotations

import asyncio
import gc

from trimtab.server.load import Load

EVERY_S = 30.0
"""Seconds between two full searches."""

_LITTLE = 1 << 20  # bytes of bodies in flight: their messages hardly add to a search
_MOST_PUT_OFF = 20  # searches put off one after the other, where there is always more in flight
_NEVER = 100_000  # searches among newer objects after which Python begins a full one by itself


def settle() -> None:
    """What lives as long as the process is not searched: call this when all of it is there. From now on Python begins
    no full search by itself."""
    gc.collect()
    gc.freeze()
    new, newer, _ = gc.get_threshold()
    gc.set_threshold(new, newer, _NEVER)


async def search(load: Load, every_s: float = EVERY_S) -> None:
    """Search from time to time, until cancelled."""
    put_off = 0
    while True:
        await asyncio.sleep(every_s)
        if load.bytes > _LITTLE and put_off < _MOST_PUT_OFF:
            put_off += 1
            continue
        put_off = 0
        gc.collect()
