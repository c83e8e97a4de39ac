"""How many functions a request calls, by module: a figure that no other load on the machine can change.

    python -m tests.bench.calls [--size BYTES] [--stream]

cProfile counts in the server, C functions included, while it answers requests (with `--stream`: chunks). Prints the
counts of one request for the floor and for the proxy, and where the proxy makes them.
"""

from __future__ import annotations

import argparse
import os
import pstats
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import uvloop

from tests.bench import bodies, load, servers

_REQUESTS, _STREAMS, _AT_ONCE = 400, 32, 16
_SHOWN = 0.5  # calls a request: modules with fewer are not shown

PROFILED = """
import cProfile, os, signal
profile = cProfile.Profile()
def ended(*_):
    profile.disable()
    profile.dump_stats({to!r} + ".part")
    os.rename({to!r} + ".part", {to!r})
signal.signal(signal.SIGUSR1, lambda *_: profile.enable())
signal.signal(signal.SIGUSR2, ended)
"""


def count(
    start: Callable[[str, Path, str], servers.Server], origin: str, at: Path, body: bytes, *, stream: bool
) -> dict[str, float]:
    """Calls of one server by module, for one request or chunk."""
    to = at / "profile"
    with servers.stopped_after([start(origin, at, PROFILED.format(to=str(to)))]) as (server,):
        uvloop.run(_load(server, body, _AT_ONCE))
        server.process.send_signal(signal.SIGUSR1)
        time.sleep(0.2)
        done = uvloop.run(_load(server, body, _STREAMS if stream else _REQUESTS))
        time.sleep(0.3)  # what is counted and logged a moment later belongs to it
        server.process.send_signal(signal.SIGUSR2)
        while not to.exists():
            time.sleep(0.05)
        found: Counter[str] = Counter()
        for (file, _, _), (_, calls, *_) in pstats.Stats(str(to)).stats.items():  # type: ignore[attr-defined]
            found[_module(file)] += calls
        to.unlink()
    return {name: calls / done for name, calls in found.most_common()}


async def _load(server: servers.Server, body: bytes, requests: int) -> int:
    """Send so many requests; returns how many, or how many chunks, were answered."""
    data, left = load.request(server, body), iter(range(requests))
    done = await load.crowd(server, [(data for _ in left) for _ in range(_AT_ONCE)])
    return sum(c.events for c in done) or sum(c.answered for c in done)


def _module(file: str) -> str:
    path = file.partition("site-packages/")[2].partition("/")[0] or file.partition("/proxy/")[2]
    return path or ("C" if file == "~" else "the standard library, and the floor")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=2_000, help="bytes of the request's body")
    parser.add_argument("--stream", action="store_true", help="count for each chunk of a stream")
    given = parser.parse_args()
    os.sched_setaffinity(0, servers.OTHERS)
    body = bodies.body(servers.FITS, given.size, stream=given.stream)
    with tempfile.TemporaryDirectory() as at, servers.stopped_after([servers.start_upstream(Path(at))]) as (upstream,):
        for start in (servers.start_floor, servers.start_trimtab):
            found = count(start, upstream.origin, Path(at), body, stream=given.stream)
            print(f"{start.__name__.removeprefix('start_')}: {sum(found.values()):.0f} calls")
    for name, calls in found.items():
        if calls >= _SHOWN:
            print(f"{calls:8.1f} {name}")


if __name__ == "__main__":
    main()
