"""What the process holds, sampled from /proc while the load goes on, and whether that grows."""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass

from tests.support.served import Served


@dataclass(frozen=True)
class Sample:
    """One look: seconds since the start, KB of resident memory, descriptors, sockets, threads."""

    at: float
    rss: int
    descriptors: int
    sockets: int
    threads: int


def sample(served: Served, began: float) -> Sample:
    found = served.descriptors()
    return Sample(time.monotonic() - began, served.rss_kb(), found["all"], found["sockets"], served.threads())


async def watch(served: Served, samples: list[Sample], every_s: float = 5.0) -> None:
    """Look every few seconds, forever."""
    began = time.monotonic()
    while True:
        samples.append(sample(served, began))
        await asyncio.sleep(every_s)


def quarters(samples: list[Sample], of: str) -> list[float]:
    """The median of a figure in each quarter of the time."""
    size = max(1, len(samples) // 4)
    parts = [samples[i * size : (i + 1) * size] for i in range(4)]
    return [statistics.median(getattr(s, of) for s in part) if part else 0.0 for part in parts]


def slope(samples: list[Sample], of: str) -> float:
    """Growth an hour over the second half, by least squares."""
    half = samples[len(samples) // 2 :]
    if len(half) < 3:
        return 0.0
    fit = statistics.linear_regression([s.at / 3600 for s in half], [float(getattr(s, of)) for s in half])
    return fit.slope
