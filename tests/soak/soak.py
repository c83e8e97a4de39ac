"""One soak from start to books."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.soak.faults import torment
from tests.soak.load import Ledger, Load
from tests.soak.upstream import SUMMARIES, SoakUpstream
from tests.soak.watch import Sample, quarters, sample, slope, watch
from tests.support.served import Served, serving
from tests.support.valkey import Valkey

# What is remembered of conversations is bounded so that the load fills it within the first quarter of 20 minutes: what
# still grows then has no bound. By default it would fill up for hours (docs/performance.md, "Many conversations").
CONFIG = """\
read_timeout_s = 6.0
retries = 1
[server]
max_body_mb = 1
remembered_mb = 2
grace_s = 10.0
drain_s = 0.2
[models."*"]
context_size = 8192
max_output_tokens = 1024
[limits]
discover = false
[compaction]
model = "{model}"
max_summary_tokens = 500
summary_wait_s = 2.0
call_timeout_s = 5.0
[redis]
url = "redis://{address}/0"
"""
_IDLE_S = 45.0  # after the load: pools forget their connections after 30 s
_SPARE = {"sockets": 12, "tasks": 8}  # what may be more at rest than before: the pool of Redis, a summary's last words


@dataclass
class Found:
    """The books of one soak."""

    seconds: float
    ledger: Ledger = field(default_factory=Ledger)
    samples: list[Sample] = field(default_factory=list)
    torments: Counter[str] = field(default_factory=Counter)
    before: Sample | None = None
    after: Sample | None = None
    tasks: list[int] = field(default_factory=list)
    objects: list[int] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    logged: Counter[str] = field(default_factory=Counter)
    bugs: list[str] = field(default_factory=list)
    errors: str = ""
    status: int | None = None

    @property
    def problems(self) -> list[str]:
        return list(_problems(self))


async def soak(seconds: float, rate: float, idle_s: float = _IDLE_S) -> Found:
    """Run for `seconds` at `rate` requests a second, rest, stop."""
    found = Found(seconds)
    valkey = Valkey()
    toml = CONFIG.format(model=SUMMARIES, address=valkey.address)
    program = (sys.executable, "-m", "tests.soak.observed")
    try:
        async with SoakUpstream() as upstream, serving(upstream.base_url, toml, program=program) as served:
            await _loaded(served, valkey, found, rate)
            await asyncio.sleep(idle_s)
            found.after = sample(served, 0.0)
            await asyncio.sleep(6)  # for one more look at the tasks
            served.kill(15)
            found.status = await served.ended()
            _read_log(served, found)
    finally:
        valkey.stop()
    return found


async def _loaded(served: Served, valkey: Valkey, found: Found, rate: float) -> None:
    await asyncio.sleep(6)
    found.before = sample(served, 0.0)
    beside = [
        asyncio.ensure_future(watch(served, found.samples)),
        asyncio.ensure_future(torment(valkey, found.torments, every_s=min(20.0, found.seconds / 12))),
        asyncio.ensure_future(_say(found)),
    ]
    await Load(served.url, rate, found.ledger).run(found.seconds)
    for task in beside:
        task.cancel()
    for ended in await asyncio.gather(*beside, return_exceptions=True):
        if isinstance(ended, Exception):
            raise ended


async def _say(found: Found, every_s: float = 60.0) -> None:
    began = time.monotonic()
    while True:
        await asyncio.sleep(every_s)
        ledger, last = found.ledger, found.samples[-1]
        print(
            f"{time.monotonic() - began:6.0f} s  {ledger.asked.total()} asked, {ledger.wrong.total()} wrong, "
            f"{last.rss // 1024} MB, {last.sockets} sockets",
            flush=True,
        )


def _read_log(served: Served, found: Found) -> None:
    for event in ("exchange", "summary", "bug", "observed"):
        records = served.records(event)
        found.logged[event] = len(records)
        if event == "exchange":
            found.outcomes.update(record["outcome"] for record in records)
            found.outcomes.update("fail_open" for record in records if record.get("fail_open"))
        elif event == "bug":
            found.bugs = [f"{record.get('error')} {record.get('where')}" for record in records[:20]]
        elif event == "observed":
            found.tasks = [record["tasks"] for record in records]
            found.objects = [record["objects"] for record in records]
    found.errors = served.errors


def _problems(found: Found) -> Iterator[str]:
    if found.ledger.wrong:
        yield f"{found.ledger.wrong.total()} answers were not what was caused: {dict(found.ledger.wrong)}"
    if found.bugs or found.outcomes["failed"] or found.outcomes["fail_open"]:
        yield f"bugs in the log: {found.bugs}, failed open {found.outcomes['fail_open']}"
    if "Traceback" in found.errors:
        yield f"a traceback on standard error: {found.errors[-800:]}"
    if found.status != 0:
        yield f"the process ended with {found.status}"
    if found.before and found.after and found.after.sockets > found.before.sockets + _SPARE["sockets"]:
        yield f"sockets left: {found.before.sockets} before, {found.after.sockets} after"
    if found.tasks and found.tasks[-1] > found.tasks[0] + _SPARE["tasks"]:
        yield f"tasks left: {found.tasks[0]} before, {found.tasks[-1]} after"
    second, last = quarters(found.samples, "rss")[1], quarters(found.samples, "rss")[3]
    if found.seconds >= 1000 and last > second * 1.1:
        yield f"memory grows: {second:.0f} KB in the second quarter, {last:.0f} KB in the last"


def report(found: Found) -> str:
    """The books as text."""
    ledger, samples = found.ledger, found.samples
    lines = [f"{found.seconds / 60:.1f} minutes, {ledger.asked.total()} requests, slowest {ledger.slowest:.1f} s"]
    lines += [f"  {name:32} {ledger.right[name]:6} of {ledger.asked[name]}" for name in sorted(ledger.asked)]
    lines += [f"  summaries seen by clients: {dict(ledger.summaries)}", f"  Redis: {dict(found.torments)}"]
    lines += [f"  logged: {dict(found.logged)}", f"  outcomes: {dict(found.outcomes)}"]
    for name in ("rss", "descriptors", "sockets", "threads"):
        before, after = (getattr(s, name) if s else 0 for s in (found.before, found.after))
        middle = ", ".join(f"{value:.0f}" for value in quarters(samples, name))
        lines.append(
            f"  {name:12} before {before}, by quarter {middle}, at rest {after}; {slope(samples, name):+.0f}/h"
        )
    if found.tasks:
        lines.append(f"  tasks        first {found.tasks[0]}, most {max(found.tasks)}, at rest {found.tasks[-1]}")
        lines.append(f"  objects      first {found.objects[0]}, most {max(found.objects)}, at rest {found.objects[-1]}")
    lines += [f"  exit status {found.status}", *ledger.details]
    return "\n".join([*lines, *(f"PROBLEM: {problem}" for problem in found.problems)])
