"""What a request costs that finds the processor's caches full of something else, as an agent's does that has thought.

    python -m tests.bench.cold [--size BYTES] [--rounds N]

Before every request the core of the servers scans 48 MB and runs some Python of another process. Prints milliseconds
added to a direct call (medians), and the ratio to the floor's.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench import bodies, load, servers

_SCAN = """
import sys
memory = bytearray(48 << 20)
work = compile("{str(i): [i] for i in range(3000)}", "work", "eval")
for _ in sys.stdin:
    memory.count(b"x")
    eval(work)
    print(flush=True)
"""


@contextmanager
def elsewhere() -> Iterator[Callable[[], None]]:
    """Something that makes the servers' core busy with other things, and returns when it is done."""
    with subprocess.Popen([sys.executable, "-c", _SCAN], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        os.sched_setaffinity(process.pid, servers.MEASURED)
        asked, done = process.stdin, process.stdout
        assert asked is not None
        assert done is not None

        def scan() -> None:
            asked.write(b"\n")
            asked.flush()
            done.readline()

        yield scan
        asked.close()


def measure(size: int, rounds: int) -> dict[str, float]:
    """Milliseconds added to a direct call, by server; the median."""
    with tempfile.TemporaryDirectory() as at, servers.stopped_after([]) as running, elsewhere() as scan:
        running.append(servers.start_upstream(Path(at)))
        starts = (servers.start_trimtab, servers.start_floor, servers.start_bare)
        running += [start(running[0].origin, Path(at)) for start in starts]
        body = bodies.body(servers.FITS, size)

        def quiet(_: int) -> bytes:
            scan()
            return body

        times = load.latencies(running, quiet, rounds, most_s=300)
    direct = statistics.median(times.pop("direct"))
    return {name: (statistics.median(taken) - direct) * 1e3 for name, taken in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=2_000, help="bytes of the request's body")
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.parse_args()
    os.sched_setaffinity(0, servers.OTHERS)
    added = measure(given.size, given.rounds)
    for name, milliseconds in added.items():
        print(f"{name:10}{milliseconds:8.3f} ms{milliseconds / added['floor']:8.2f} of the floor")


if __name__ == "__main__":
    main()
