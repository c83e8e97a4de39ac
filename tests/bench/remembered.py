"""What is remembered of many conversations: resident memory, and what the next step of one of them costs.

    python -m tests.bench.remembered                         1,000 conversations of 200,000 tokens, one minute
    python -m tests.bench.remembered --conversations 10000   ten times as many: the bound holds

Each conversation is read and planned as the exchange does it, in a window that it does not fit. Then the newest are
asked for again, which are kept as they are, and older ones, which come from the shelf.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import time
from pathlib import Path
from typing import NamedTuple

from tests.bench import bodies
from trimtab.context.apply.format import CHAT
from trimtab.context.plan.plan import plan
from trimtab.context.plan.replays import Replays
from trimtab.context.policy import Policy
from trimtab.context.read.history import Reader
from trimtab.context.read.memo import Memo
from trimtab.context.read.prefixes import Longest, Prefixes
from trimtab.context.read.shelf import MOST_BYTES, Shelf

SIZE = 2 * bodies.SIZE_OF_100K_TOKENS  # bytes
BUDGET = 120_000  # tokens
ASKED_AGAIN = 40  # conversations of each kind


class Found(NamedTuple):
    """Resident megabytes beyond those at rest, and milliseconds of CPU of a step."""

    messages: int  # of each conversation
    megabytes: float
    first: float
    from_shelf: float
    newest: float


def measure(conversations: int, size: int = SIZE) -> Found:
    """Read and plan so many conversations, one after the other."""
    template = bodies.body("m", size)
    memo, shelf = Memo(), Shelf(MOST_BYTES)
    reader, replays = Reader(memo, Prefixes(Longest(shelf=shelf))), Replays(shelf=shelf)

    def step(number: int) -> float:
        body = bodies.unseen(template, number)
        began = time.process_time()
        history = reader.history(reader.read(body, b"tenant"))
        plan(history, Policy(), BUDGET, memo, CHAT, replays)
        return (time.process_time() - began) * 1e3

    gc.collect()
    rest = _resident()
    first = [step(number) for number in range(conversations)]
    megabytes = (_resident() - rest) / 1e6
    kept = sum(1 for _ in replays._kept)
    newest = [step(number) for number in range(conversations - min(kept, ASKED_AGAIN) + 1, conversations)]
    older = range(max(0, conversations - 500), max(1, conversations - 500 + ASKED_AGAIN))
    return Found(
        len(reader.read(template).request.messages),
        megabytes,
        statistics.median(first),
        statistics.median([step(number) for number in older]),
        statistics.median(newest),
    )


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=1_000)
    count = parser.parse_args().conversations
    found = measure(count)
    size, shelf = f"{found.messages} messages, {SIZE / 1e6:.2f} MB each", found.from_shelf
    print(f"{count} conversations of {size}: {found.megabytes:.0f} MB resident")
    print(f"a step, ms of CPU: first {found.first:.1f}, from the shelf {shelf:.2f}, newest {found.newest:.2f}")
    print(f"from the shelf / first {shelf / found.first:.3f}")


if __name__ == "__main__":
    main()
