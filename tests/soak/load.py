"""The load: requests begin at a steady rate, whatever becomes of those before (an open loop), each of a kind drawn
by weight. The ledger counts what came back as it should, and keeps what did not.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter

import aiohttp
import msgspec

from tests.soak.kinds import KINDS, Answer, Kind

PATIENCE_S = 40.0  # an answer later than this hangs
_KEPT = 40  # what is kept of answers that are wrong


class Ledger:
    """What came back."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.right: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self.details: list[str] = []
        self.summaries: Counter[str] = Counter()
        self.slowest = 0.0  # seconds

    def settle(self, name: str, problem: str | None) -> None:
        if problem is None:
            self.right[name] += 1
            return
        self.wrong[name] += 1
        if len(self.details) < _KEPT:
            self.details.append(f"{time.strftime('%H:%M:%S')} {name}: {problem}")
            print(self.details[-1], flush=True)


class Load:
    """Sends for a while: `await Load(url, rate, ledger).run(seconds)`."""

    def __init__(self, url: str, rate: float, ledger: Ledger, seed: int = 1) -> None:
        self._url, self._rate, self._ledger = url, rate, ledger
        self._random = random.Random(seed)
        self._names = list(KINDS)
        self._weights = [kind.weight for kind in KINDS.values()]
        self._open: set[asyncio.Task[None]] = set()

    @property
    def open(self) -> int:
        return len(self._open)

    async def run(self, seconds: float) -> None:
        """Begin requests for `seconds`, then wait for those still open."""
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=True) as session:
            ends = time.monotonic() + seconds
            while time.monotonic() < ends:
                [name] = self._random.choices(self._names, self._weights)
                task = asyncio.ensure_future(self._one(session, name))
                self._open.add(task)
                task.add_done_callback(self._open.discard)
                await asyncio.sleep(self._random.expovariate(self._rate))
            await asyncio.gather(*self._open)

    async def _one(self, session: aiohttp.ClientSession, name: str) -> None:
        kind, began = KINDS[name], time.monotonic()
        self._ledger.asked[name] += 1
        try:
            problem = await asyncio.wait_for(self._ask(session, kind), kind.leaves_s or PATIENCE_S)
        except TimeoutError:
            problem = None if kind.leaves_s else f"no end within {PATIENCE_S} s"
        except (aiohttp.ClientError, OSError) as error:
            problem = f"{type(error).__name__}: {error}"
        self._ledger.slowest = max(self._ledger.slowest, time.monotonic() - began)
        self._ledger.settle(name, problem)

    async def _ask(self, session: aiohttp.ClientSession, kind: Kind) -> str | None:
        body = kind.body()
        data = body if isinstance(body, bytes) else None if body is None else msgspec.json.encode(body)
        named = {"x-soak": kind.answer, "x-soak-name": str(self._random.random()), **kind.headers}
        if self._random.random() < 0.1:
            named["connection"] = "close"
        async with session.request(kind.method, self._url + kind.path, data=data, headers=named) as response:
            received, broken = await _read(response)
        if summary := response.headers.get("x-trimtab-summary"):
            self._ledger.summaries[summary] += 1
        if kind.leaves_s:
            return None
        return kind.check(Answer(response.status, response.headers, received, broken))


async def _read(response: aiohttp.ClientResponse) -> tuple[bytes, bool]:
    """What came, and whether it was broken off."""
    received: list[bytes] = []
    try:
        async for piece in response.content.iter_any():
            received.append(piece)
    except aiohttp.ClientPayloadError:
        return b"".join(received), True
    return b"".join(received), False
