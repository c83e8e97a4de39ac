"""What is in flight is counted, and what large bodies took is the system's again once nothing is held."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from trimtab.server.load import WORTHWHILE, Load

pytestmark = pytest.mark.anyio

_SCRIPT = """
from pathlib import Path
from trimtab.server.load import give_back

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

before = resident()
large, small = [], []
for _ in range(1_000):
    large.append(b"x" * 100_000)
    small.append(b"y" * 1_000)
del large
give_back()
print(resident() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads resident memory from /proc (Linux)")
def test_free_memory_is_handed_back() -> None:
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 20_000_000


@pytest.mark.parametrize(("held", "times"), [(WORTHWHILE // 2, 0), (WORTHWHILE, 1)])
def test_it_is_asked_for_once_nothing_is_held_after_much_was(held: int, times: int) -> None:
    asked: list[None] = []
    load = Load(10, 1 << 30, emptied=lambda: asked.append(None))
    for size in (held, 1000):
        load.hold(size)
    for size in (held, 1000):
        load.release(size)
    load.hold(1000)
    load.release(1000)
    assert len(asked) == times


async def test_idle_is_when_the_last_request_has_left() -> None:
    load = Load(2, 100)
    await asyncio.wait_for(load.idle(), 1)
    load.requests = 2
    assert load.full
    waiting = asyncio.ensure_future(load.idle())
    await asyncio.sleep(0)
    load.leave()
    assert not load.full
    await asyncio.sleep(0)
    assert not waiting.done()
    load.leave()
    await asyncio.wait_for(waiting, 1)


def test_draining_is_full() -> None:
    load = Load(2, 100)
    assert not load.full
    load.leaving = True
    assert not load.full
    load.draining = True
    assert load.full
