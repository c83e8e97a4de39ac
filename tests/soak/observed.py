"""`trimtab serve` that also writes into its log, every few seconds, how many tasks its event loop holds: what no one
can see from outside. `python -m tests.soak.observed --config FILE --port PORT`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys

import msgspec

from trimtab.server.serve import serve
from trimtab.settings import load

EVERY_S = 5.0


async def _report() -> None:
    while True:
        await asyncio.sleep(EVERY_S)
        counts = {"event": "observed", "tasks": len(asyncio.all_tasks()), "objects": len(gc.get_objects())}
        print(json.dumps(counts), flush=True)


def main(config: str, port: int) -> None:
    settings = load(config)
    held: list[asyncio.Task[None]] = []
    serve(
        msgspec.structs.replace(settings, server=msgspec.structs.replace(settings.server, port=port)),
        lambda url, shared: held.append(asyncio.create_task(_report())),
    )


if __name__ == "__main__":
    main(sys.argv[2], int(sys.argv[4]))
