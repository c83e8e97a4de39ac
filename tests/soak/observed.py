"""`trimtab serve` that also writes into its log, every few seconds, how many tasks its event loop holds: what no one
can see from outside. `python -m tests.soak.observed --config FILE --port PORT`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
import time

import msgspec

from trimtab.server.serve import serve
from trimtab.settings import load

EVERY_S = 5.0


def _report() -> None:
    """For ever, from a thread: the server has no place where somebody else's task could begin."""
    while True:
        time.sleep(EVERY_S)
        line = json.dumps({"event": "observed", **_counts()})
        print(f"{line}\n", end="", flush=True)  # in one piece: the log is written by another thread


def _counts() -> dict[str, int]:
    """In a function of its own, so that the list is gone before the next is made: that would hold it, and with it
    everything that ever lived."""
    objects = gc.get_objects()
    tasks = sum(isinstance(each, asyncio.Task) and not each.done() for each in objects)
    return {"tasks": tasks, "objects": len(objects)}


def main(config: str, port: int) -> None:
    settings = load(config)
    threading.Thread(target=_report, daemon=True).start()
    serve(msgspec.structs.replace(settings, server=msgspec.structs.replace(settings.server, port=port)))


if __name__ == "__main__":
    main(sys.argv[2], int(sys.argv[4]))
