"""How fast it is, beside what it could be and what others are, in one run that starts everything itself.

    make bench                      everything, about five minutes
    make bench ARGS=--quick         about one minute
    PEERS=1 make bench              also LiteLLM, Portkey and headroom, installed on first use

Prints a table, ratios first, and writes the same as JSON. `--only` takes some of: latency speed streams memory start
core. Times are those of this machine at this hour; only the ratios are worth quoting.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench import core, measure, peers, servers, table
from tests.bench.servers import Server, Unavailable

PARTS = ("start", "memory", "latency", "speed", "streams", "core")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART")
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"), help="where the figures go")
    given = parser.parse_args()
    results = run(measure.QUICK if given.quick else measure.FULL, given.only)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(results, indent=1))
    print(table.render(results))
    print(f"\nwritten to {given.json}")


def run(effort: measure.Effort, parts: tuple[str, ...]) -> dict[str, Any]:
    """All parts asked for, in one dictionary of plain values."""
    os.sched_setaffinity(0, servers.OTHERS)
    results: dict[str, Any] = {"machine": _machine(), "skipped": {}}
    if set(parts) - {"core"}:
        with tempfile.TemporaryDirectory() as at, servers.stopped_after([]) as running:
            _over_http(Path(at), running, results, effort, parts)
    if "core" in parts:
        _say("the core")
        results["core"] = core.run()
    return results


def _over_http(
    at: Path, running: list[Server], results: dict[str, Any], effort: measure.Effort, parts: tuple[str, ...]
) -> None:
    running.append(servers.start_upstream(at))
    origin = running[0].origin
    ours = (servers.start_trimtab, servers.start_floor)
    if "start" in parts:
        results["start_s"] = {make.__name__.removeprefix("start_"): _start_s(make, origin, at, effort) for make in ours}
    if "memory" in parts:
        results["memory"] = {}
        for make in ours:
            with servers.stopped_after([make(origin, at)]) as fresh:
                _say(f"memory, {fresh[0].name}")
                results["memory"][fresh[0].name] = measure.crowded(fresh[0], effort)._asdict()
    running += [make(origin, at) for make in ours]
    others = [servers.start_bare, servers.start_nginx, *(peers.STARTS if os.environ.get("PEERS") == "1" else ())]
    for start in others:
        try:
            running.append(start(origin, at))
        except Unavailable as why:
            results["skipped"][start.__name__.removeprefix("start_")] = str(why)
    _measured(running, results, effort, parts)


def _measured(running: list[Server], results: dict[str, Any], effort: measure.Effort, parts: tuple[str, ...]) -> None:
    for part, of in (("latency", measure.latency), ("speed", measure.speed)):
        if part in parts:
            results[part] = {}
            for case in measure.CASES:
                if part == "speed" and case.cold:
                    continue
                _say(f"{part}, {case.name}")
                results[part][case.name] = {k: v._asdict() for k, v in of(case, running, effort).items()}
                for name in {server.name for server in running} - set(results[part][case.name]):
                    results["skipped"][f"{name}, {part} of {case.name}"] = "it failed or answered with an error"
    if "streams" in parts:
        _say("streams")
        results["streams"] = {k: v._asdict() for k, v in measure.streaming(running, effort).items()}


def _start_s(make: Callable[[str, Path], Server], origin: str, at: Path, effort: measure.Effort) -> float:
    times = []
    for _ in range(effort.starts):
        with servers.stopped_after([make(origin, at)]) as started:
            times.append(started[0].start_s)
    return statistics.median(times)


def _machine() -> dict[str, Any]:
    cpu = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), ": unknown")
    return {"cpu": cpu.split(":")[1].strip(), "cores": os.cpu_count(), "python": sys.version.split()[0]}


def _say(what: str) -> None:
    print(f"measuring {what} (load {os.getloadavg()[0]:.1f})", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
