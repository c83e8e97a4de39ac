"""How far it scales: a small model of what processes, one Redis and the network carry, fed by measured costs and
checked against 1, 2 and 4 processes that share one port and one Valkey.

    python -m tests.bench.scale                 about two minutes
    python -m tests.bench.scale --seconds 5     longer rounds, on a machine with other work

The model: every part that does its work on one core at a time can be busy for all of the time, and all parts together
for as many cores as there are. So requests/s are the least of these bounds, each the inverse of CPU seconds a request:
`n` processes, the upstream, the load generator, Valkey, and the sum of all over the cores. CPU seconds are those of one
process under the same load, so that what is predicted for 2 and 4 is not fitted to it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import uvloop

from tests.bench import bodies, load, servers
from tests.bench.servers import FITS, SHAPED, SHAPED_WINDOW, Server
from tests.support.valkey import Valkey

PROCESSES = (1, 2, 4)
AT_ONCE = 64  # connections: the system spreads them over the processes by chance
STEP_S = 10.0  # seconds between two requests of one agent: a short answer and a tool
BUSY = 0.7  # of a core: more leaves nothing for a burst
GBIT = 1e9 / 8  # bytes a second
COMMAND_S = 10e-6  # of one core of Valkey, for a command over the network: 100,000 a second, as its makers measure
CONVERSATION = "x_trimtab_conversation"

_SHARED = """
[server]
share_port = true
[conversations]
store = "redis"
[redis]
url = "redis://{redis}/0"
"""


class Case(NamedTuple):
    """One kind of request. `stored`: it names a conversation that lives in Valkey, which grows by each answer."""

    name: str
    model: str
    size: int  # bytes
    stored: bool = False


CASES = (
    Case("2 KB", FITS, 2_000),
    Case("100 KB", FITS, 100_000),
    Case("100K tokens, shaped", SHAPED, bodies.SIZE_OF_100K_TOKENS),
    Case("2 KB, stored", SHAPED, 2_000, stored=True),
)


class Cost(NamedTuple):
    """CPU seconds of one request, by part, and commands to Valkey."""

    proxy: float
    upstream: float
    generator: float
    redis: float
    commands: float


class Run(NamedTuple):
    """What was measured with some processes."""

    requests_a_second: float
    cost: Cost
    errors: int


def predicted(cost: Cost, processes: int, cores: int) -> tuple[float, str]:
    """Requests a second, and what bounds them."""
    bounds = {
        "processes": processes / cost.proxy,
        "upstream": 1 / cost.upstream,
        "generator": 1 / cost.generator,
        "Valkey": 1 / cost.redis if cost.redis else float("inf"),
        "cores": cores / (cost.proxy + cost.upstream + cost.generator + cost.redis),
    }
    return min((rate, name) for name, rate in bounds.items())


class Plan(NamedTuple):
    """What one core of a replica carries, at `BUSY`, and how many such cores fill something else."""

    requests_a_second: float
    agents: float
    until_valkey: float  # cores
    until_network: float  # cores: 10 Gbit/s of requests, which come in and go out as large at most


def carried(cost: Cost, size: int) -> Plan:
    """The paper part: what follows from the costs of one process."""
    rate = BUSY / cost.proxy
    until_valkey = BUSY / (cost.commands * COMMAND_S) / rate if cost.commands else float("inf")
    return Plan(rate, rate * STEP_S, until_valkey, 10 * GBIT / size / rate)


@contextlib.contextmanager
def _processes(count: int, origin: str, redis: str, at: Path):  # type: ignore[no-untyped-def]
    config = at / "trimtab.toml"
    upstream = servers.CONFIG.format(origin=origin, fits=FITS, shaped=SHAPED, window=SHAPED_WINDOW)
    config.write_text(_SHARED.format(redis=redis) + upstream)
    port, cores, running = servers.free_port(), set(os.sched_getaffinity(0)), []
    with servers.stopped_after(running):
        for n in range(count):
            own = servers.free_port()
            command = [sys.executable, "-m", "trimtab", "serve", "--config", str(config), "--port", str(port)]
            started = servers.launch(
                f"trimtab {n}", [*command, "--metrics-port", str(own)], own, at / f"{n}.log", cores=cores,
                ready="/healthz/ready",
            )  # fmt: skip
            started.port = port
            running.append(started)
        yield running


def _commands(redis: Valkey) -> int:
    return int(redis.client().info("stats")["total_commands_processed"])


def measure(case: Case, count: int, seconds: float) -> Run:
    """Run one load against so many processes, with everything on all cores."""
    cores = set(os.sched_getaffinity(0))
    redis = Valkey()
    with tempfile.TemporaryDirectory() as name, servers.stopped_after([servers.start_upstream(Path(name))]) as started:
        upstream = started[0]
        os.sched_setaffinity(upstream.process.pid, cores)
        with _processes(count, upstream.origin, redis.address, Path(name)) as running:
            body = bodies.body(case.model, case.size)
            named = CONVERSATION if case.stored else ""
            uvloop.run(load.throughput(running[0], body, AT_ONCE, 1.0, named))
            parts = [Server("valkey", redis.port, redis._process), upstream]
            before = [part.cpu_s() for part in parts], sum(s.cpu_s() for s in running), _commands(redis)
            own = time.process_time()
            done = uvloop.run(load.throughput(running[0], body, AT_ONCE, seconds, named))
            own = time.process_time() - own
            others = [part.cpu_s() - was for part, was in zip(parts, before[0], strict=True)]
            proxy, commands = sum(s.cpu_s() for s in running) - before[1], _commands(redis) - before[2] - 1
    redis.stop()
    n = max(1, done.requests)
    cost = Cost(proxy / n, others[1] / n, own / n, others[0] / n, commands / n)
    return Run(done.requests / done.seconds, cost, done.errors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each round")
    seconds, cores = parser.parse_args().seconds, len(os.sched_getaffinity(0))
    print(f"{'':20} processes   req/s  model  bound by   CPU us  Valkey us  commands")
    for case in CASES:
        runs = {count: measure(case, count, seconds) for count in PROCESSES}
        for count, run in runs.items():
            (rate, by), cost = predicted(runs[1].cost, count, cores), run.cost
            cpu, valkey = cost.proxy * 1e6, cost.redis * 1e6
            figures = f"{run.requests_a_second:7.0f}{rate:7.0f}  {by:9}{cpu:8.0f}{valkey:11.0f}{cost.commands:10.3f}"
            print(f"{case.name:20}{count:10} {figures}" + (f"  {run.errors} errors" if run.errors else ""))
        one = carried(runs[1].cost, case.size)
        print(
            f"{'':20} a core at {BUSY:.0%}: {one.requests_a_second:.0f} req/s, {one.agents:.0f} agents, a step each "
            f"{STEP_S:.0f} s; one Valkey carries {one.until_valkey:.0f} such cores, 10 Gbit/s {one.until_network:.0f}"
        )


if __name__ == "__main__":
    main()
