"""What summaries cost and keep, through the running proxy: the arena (a strict upstream that counts real o200k tokens
and answers summary calls itself) with and without a summary model, and once more through a second replica.

    . ENV/env && .venv/bin/python -m tests.bench.compaction [--steps 30 --window 32768]   ENV: made by arena/setup.sh
    .venv/bin/python -m tests.bench.compaction --pace                                 steps that wait, in virtual time

  read     tokens the summarizer read, over the tokens of the messages its summaries stand for at the end of each run;
           `read` counts also what was made ahead of an overflow that came after the last step
  replay   the same conversations through a second replica on the same Redis: its summary calls
  --pace   each step takes 1.5 s and a second for 60 tokens of the answer, as recorded; a summary call takes 5 s; the
           next request follows at once. A step waits when the summary it needs is not there yet.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
from dataclasses import dataclass, field
from typing import Any

from tests.bench.policy import CORPUS, count, load, requests
from tests.support.scripted import closed_port
from tests.support.served import serving
from tests.support.valkey import Valkey
from trimtab.context.edits import Segment
from trimtab.context.plan.plan import plan
from trimtab.context.policy import Policy
from trimtab.context.read.history import history
from trimtab.context.read.memo import Memo

ARENA = CORPUS.parent.parent / "arena" / "arena.py"
COMPACTION = '[compaction]\nmodel = "same"\nsecret = "bench"\n'
SHOWN = ("refused", "invalid", "lost", "cached", "fill", "cost", "summaries", "summary_read", "facts")
CALL_S = 5.0


async def arena(proxy: str, port: int, name: str, options: list[str]) -> dict[str, Any]:
    """One run of the arena, by the Python of its environment, against a proxy whose upstream is `port`. Its line for
    all recordings."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        given = [
            "--url",
            proxy,
            "--listen",
            str(port),
            "--transcripts",
            str(CORPUS),
            "--name",
            name,
            "--json",
            out.name,
        ]
        process = await asyncio.create_subprocess_exec(
            "python3", str(ARENA), *given, *options, stdout=asyncio.subprocess.DEVNULL
        )
        assert await process.wait() == 0, "the arena failed: is its environment active?"
        result: dict[str, Any] = json.load(out)["total"]
        return result


def row(result: dict[str, Any]) -> str:
    return f"{result['name'][4:]:28}" + " ".join(f"{name}={result.get(name, '-')}" for name in SHOWN)


async def over_http(options: list[str]) -> None:
    port, server = closed_port(), Valkey()
    upstream = f"http://127.0.0.1:{port}/v1"
    shared = f'{COMPACTION}[redis]\nurl = "redis://{server.address}"\n'
    async with serving(upstream) as plain:
        print(row(await arena(plain.base_url, port, "no summary model", [*options, "--facts"])), flush=True)
    async with serving(upstream, COMPACTION) as alone:
        print(row(await arena(alone.base_url, port, "summaries, facts planted", [*options, "--facts"])), flush=True)
    async with serving(upstream, shared) as first, serving(upstream, shared) as second:
        print(row(await arena(first.base_url, port, "summaries", options)), flush=True)
        print(row(await arena(second.base_url, port, "replay, second replica", options)), flush=True)
    server.stop()


@dataclass
class Run:
    """One conversation in virtual time, in seconds. `ready` says when the summary of some segments is there."""

    messages: list[bytes]
    now: float = 0.0
    read: int = 0
    waits: list[float] = field(default_factory=list)
    ready: dict[tuple[Segment, ...], float] = field(default_factory=dict)

    def make(self, wanted: tuple[Segment, ...]) -> float:
        """When the summary is there; it is begun now if nobody has."""
        if wanted not in self.ready:
            known = [k for k in self.ready if wanted[: len(k)] == k]
            base: tuple[Segment, ...] = max(known, key=len, default=())
            self.read += sum(self.tokens(segment) for segment in wanted[len(base) :])
            self.ready[wanted] = max(self.now, self.ready.get(base, 0.0)) + CALL_S
        return self.ready[wanted]

    def covered(self) -> int:
        """Tokens of the messages that summaries were made of."""
        indices = {i for wanted in self.ready for segment in wanted for i in range(segment.start, segment.stop)}
        return sum(count(self.messages[i]) for i in indices)

    def tokens(self, segment: Segment) -> int:
        return sum(count(raw) for raw in self.messages[segment.start : segment.stop])


def paced(window: int, steps: int) -> None:
    limit, runs, away, steps_made = window - 4_096, [], 0, 0
    for path in sorted(CORPUS.glob("*.json.gz")):
        messages, tools = load(path)
        if sum(map(count, [*tools, *messages])) <= limit:
            continue
        run, memo, standing = Run(messages), Memo(), ()
        extras = [b"[" + b",".join(tools) + b"]"] if tools else []
        for length, _ in requests(messages, tools, limit, steps):
            found = plan(history(messages[:length], extras, memo), Policy(compaction=True), limit, memo)
            standing = found.summary
            if standing and (late := run.make(standing) - run.now) > 0:
                run.waits.append(late)
                run.now += late
            run.now += 1.5 + (count(messages[length]) if length < len(messages) else 0) / 60
            if found.ahead:
                run.make(found.ahead)
            steps_made += 1
        away += sum(run.tokens(segment) for segment in standing)
        runs.append(run)
    waits = [wait for run in runs for wait in run.waits]
    read, covered = sum(run.read for run in runs), sum(run.covered() for run in runs)
    print(f"{steps_made} steps, {len(waits)} waited: {[round(wait, 1) for wait in waits]} s")
    print(f"read {read} tokens of messages that come to {covered}; {away} of those are taken out at the runs' ends")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--window", type=int, default=32_768)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--pace", action="store_true")
    given = parser.parse_args()
    if given.pace:
        paced(given.window, given.steps)
        return
    assert "TIKTOKEN_CACHE_DIR" in os.environ, "make the arena's environment first: arena/setup.sh"
    asyncio.run(over_http(["--window", str(given.window), "--steps", str(given.steps)]))


if __name__ == "__main__":
    main()
