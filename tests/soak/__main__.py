"""The soak: `python -m tests.soak --minutes 25 [--rate 25]`. Mixed load on a real `trimtab serve`, a faulty upstream,
and a tormented Redis; then the books: what came back wrong, what the log says, and whether anything was left behind.
Exits 1 when an answer was wrong, a bug was logged, or something is left.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from tests.soak.soak import report, soak


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=25.0, help="requests a second")
    given = parser.parse_args()
    found = asyncio.run(soak(given.minutes * 60, given.rate))
    print(report(found))
    sys.exit(bool(found.problems))


main()
