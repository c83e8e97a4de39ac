"""What is measured over HTTP, in what order. Every figure of one table comes from one run: the servers are called in
turn within each round, so that only ratios between them are left, and a ratio is the median over rounds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

import uvloop

from tests.bench import bodies, load
from tests.bench.servers import FITS, SHAPED, Server

KB, MB = 1000, 1_000_000


class Effort(NamedTuple):
    """How long to measure."""

    latency_rounds: int
    load_rounds: int
    load_s: float
    stream_rounds: int
    starts: int


FULL = Effort(latency_rounds=120, load_rounds=5, load_s=1.5, stream_rounds=3, starts=5)
QUICK = Effort(latency_rounds=24, load_rounds=1, load_s=0.7, stream_rounds=1, starts=1)


class Case(NamedTuple):
    """One kind of request. `cold`: every request is a conversation never seen before."""

    name: str
    model: str
    size: int  # bytes
    cold: bool = False

    @property
    def body(self) -> bytes:
        return bodies.body(self.model, self.size)


CASES = (
    Case("2 KB", FITS, 2 * KB),
    Case("100 KB", FITS, 100 * KB),
    Case("1 MB", FITS, 1 * MB),
    Case("4 MB", FITS, 4 * MB),
    Case("100 KB, cold", FITS, 100 * KB, cold=True),
    Case("100K tokens, shaped", SHAPED, bodies.SIZE_OF_100K_TOKENS),
    Case("100K tokens, shaped, cold", SHAPED, bodies.SIZE_OF_100K_TOKENS, cold=True),
)
AT_ONCE = 16
STREAMS = 64
CROWD = 200


class Latency(NamedTuple):
    """Milliseconds added to a direct call of the same round: through the server minus direct."""

    p50: float
    p99: float
    total_p50: float


class Speed(NamedTuple):
    """Medians over the rounds; `of` are the same figures over the floor's, round by round."""

    requests_a_second: float
    cpu_us_a_request: float
    of_floor: float
    cpu_of_floor: float
    errors: int


class StreamCost(NamedTuple):
    chunks_a_second: float
    cpu_us_a_chunk: float
    of_floor: float
    broken: int


def latency(case: Case, servers: Sequence[Server], effort: Effort) -> dict[str, Latency]:
    """Added latency at concurrency 1; the first server is the direct way."""
    template = case.body
    make: Callable[[int], bytes] = (lambda n: bodies.unseen(template, n)) if case.cold else (lambda _: template)
    rounds = max(10, effort.latency_rounds // (4 if case.size >= 4 * MB else 2 if case.size >= MB else 1))
    found = load.latencies(servers, make, rounds)
    direct = found.pop(servers[0].name)
    return {servers[0].name: _added(direct, direct), **{name: _added(times, direct) for name, times in found.items()}}


def _added(times: list[float], direct: list[float]) -> Latency:
    added = sorted((through - straight) * 1e3 for through, straight in zip(times, direct, strict=True))
    p99 = added[min(len(added) - 1, round(len(added) * 0.99))]
    return Latency(statistics.median(added), p99, statistics.median(times) * 1e3)


def speed(case: Case, servers: Sequence[Server], effort: Effort) -> dict[str, Speed]:
    """Requests a second at `AT_ONCE` connections."""
    runs: dict[str, list[load.Load]] = {server.name: [] for server in servers}
    for server in servers:
        uvloop.run(load.throughput(server, case.body, AT_ONCE, min(0.3, effort.load_s)))
    for _ in range(effort.load_rounds):
        for server in servers:
            runs[server.name].append(uvloop.run(load.throughput(server, case.body, AT_ONCE, effort.load_s)))
    floor = runs["floor"]
    return {name: _speed(mine, floor) for name, mine in runs.items() if all(r.requests > r.errors for r in mine)}


def _speed(mine: list[load.Load], floor: list[load.Load]) -> Speed:
    rates, cpus = [_rate(r) for r in mine], [_cpu(r) for r in mine]
    return Speed(
        statistics.median(rates),
        statistics.median(cpus),
        statistics.median(a / _rate(b) for a, b in zip(rates, floor, strict=True)),
        statistics.median(a / _cpu(b) for a, b in zip(cpus, floor, strict=True)),
        sum(r.errors for r in mine),
    )


def _rate(run: load.Load) -> float:
    return run.requests / run.seconds


def _cpu(run: load.Load) -> float:
    return run.cpu_s / max(1, run.requests) * 1e6


def streaming(servers: Sequence[Server], effort: Effort) -> dict[str, StreamCost]:
    """CPU of the server for each chunk of `STREAMS` concurrent streams, 50 events a second each."""
    body = bodies.body(FITS, 2 * KB, stream=True)
    runs: dict[str, list[load.Streams]] = {server.name: [] for server in servers}
    for server in servers:
        uvloop.run(load.streams(server, body, STREAMS // 4))
    for _ in range(effort.stream_rounds):
        for server in servers:
            runs[server.name].append(uvloop.run(load.streams(server, body, STREAMS)))
    floor = runs["floor"]
    return {name: _stream_cost(mine, floor) for name, mine in runs.items()}


def _stream_cost(mine: list[load.Streams], floor: list[load.Streams]) -> StreamCost:
    costs = [r.cpu_s / max(1, r.chunks) * 1e6 for r in mine]
    floors = [r.cpu_s / max(1, r.chunks) * 1e6 for r in floor]
    return StreamCost(
        statistics.median(r.chunks / r.seconds for r in mine),
        statistics.median(costs),
        statistics.median(a / b for a, b in zip(costs, floors, strict=True)),
        sum(r.broken for r in mine),
    )


def crowded(server: Server, effort: Effort) -> load.Peak:
    """Memory under `CROWD` requests of 1 MB held at once, on a server that has done nothing yet."""
    body = bodies.body(FITS, MB)
    return uvloop.run(load.memory(server, body, CROWD, 1.0 if effort is QUICK else 5.0))
