"""The whole chain for real: an upstream with faults, the proxy with Redis and summaries under load, a Prometheus
that scrapes it with our alerts loaded, and every query of the dashboard run against that Prometheus.

    python -m tests.deploy.live [--keep FOLDER]

Prints a line a panel and fails when one has no data; with `--keep` the answers are written as JSON for charts.
Takes about a minute; needs `prometheus`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp

from helm import dashboard
from tests.deploy.processes import RULES, Prometheus, process, proxy, until_up
from tests.deploy.tools import ROOT
from tests.support.valkey import Valkey, free_port

CONFIG = """
[server]
port = {port}
[redis]
url = "redis://{redis}/0"
[[upstreams]]
name = "agents"
base_url = "http://127.0.0.1:{upstream}/v1"
retries = 1
[models.model-8k]
context_size = 8000
max_output_tokens = 1000
prices = {{ input = 2.5, output = 10.0, cache_read = 0.25 }}
[models.model-down]
context_size = 8000
[models.summary-model]
context_size = 200000
prices = {{ input = 0.15, output = 0.6, cache_read = 0.075 }}
[shaping]
max_message_chars = 6000
[compaction]
model = "summary-model"
max_summary_tokens = 300
summary_wait_s = 5.0
[telemetry]
log_format = "json"
"""
LOAD_S = 40
STEPS = 40

Messages = list[dict[str, Any]]


def agent(name: int, steps: int = STEPS) -> Iterator[Messages]:
    """The requests of one agent's run: a tool call and its result more each time, one of them huge."""
    messages: Messages = [
        {"role": "system", "content": "You look for faults in files. " * 5},
        {"role": "user", "content": f"Find the fault of machine {name}."},
    ]
    for step in range(steps):
        yield messages
        call = {"id": f"c{step}", "type": "function", "function": {"name": "read", "arguments": f'{{"n": {step}}}'}}
        messages.append({"role": "assistant", "content": f"Step {step}.", "tool_calls": [call]})
        lines = 2_000 if step == 7 else 60
        messages.append({"role": "tool", "tool_call_id": f"c{step}", "content": f"{name}: line {step} of it\n" * lines})


def chat(name: int, turns: int = STEPS) -> Iterator[Messages]:
    """The requests of one person's chat: whole turns that can only be summarized or dropped."""
    messages: Messages = [{"role": "system", "content": "You help."}]
    for turn in range(turns):
        messages.append({"role": "user", "content": f"{name}, question {turn}: " + "why is that so? " * 40})
        yield messages
        messages.append({"role": "assistant", "content": f"Answer {turn}. " + "Because of this and that. " * 50})


def odd() -> Iterator[tuple[str, dict[str, Any]]]:
    """What goes wrong: refused, failing, overflowing, not readable, only observed."""
    huge = [{"role": "system", "content": "rules " * 12_000}, {"role": "user", "content": "go"}]
    long = next(m for m in agent(99) if len(m) > 40)
    while True:
        yield "refused", {"model": "model-8k", "messages": huge}
        yield "failing", {"model": "model-down", "messages": [{"role": "user", "content": "hello"}]}
        yield "overflow", {"model": "model-16k", "messages": long}
        yield "never seen", {"model": "made-up-by-a-client", "messages": [{"role": "user", "content": "hello"}]}


class Load:
    """Clients of all kinds at once, until the time is over."""

    def __init__(self, url: str, seconds: float) -> None:
        self._url = url
        self._ends = time.monotonic() + seconds
        self.answers: dict[int, int] = {}

    async def run(self) -> None:
        async with aiohttp.ClientSession() as session:
            runs = [self._conversations(session, kind, n) for n in range(3) for kind in (agent, chat)]
            await asyncio.gather(*runs, self._odd(session), self._others(session))

    async def _post(self, session: aiohttp.ClientSession, body: dict[str, Any], **headers: str) -> None:
        async with session.post(f"{self._url}/v1/chat/completions", json=body, headers=headers) as answer:
            await answer.read()
            self.answers[answer.status] = self.answers.get(answer.status, 0) + 1

    async def _conversations(self, session: aiohttp.ClientSession, kind: Any, number: int) -> None:
        while time.monotonic() < self._ends:
            for messages in kind(number):
                stream = {"stream": True, "stream_options": {"include_usage": True}} if number else {}
                await self._post(session, {"model": "model-8k", "messages": messages, **stream})
                await asyncio.sleep(0.05)
                if time.monotonic() > self._ends:
                    return
            number += 10

    async def _odd(self, session: aiohttp.ClientSession) -> None:
        for _, body in odd():
            if time.monotonic() > self._ends:
                return
            await self._post(session, body)
            await self._post(session, body, **{"x-trimtab-observe": "true"})
            await asyncio.sleep(0.3)

    async def _others(self, session: aiohttp.ClientSession) -> None:
        while time.monotonic() < self._ends:
            async with session.get(f"{self._url}/v1/models") as answer:
                await answer.read()
            await asyncio.sleep(1)


async def ask(prometheus: Prometheus, query: str, began: float) -> list[dict[str, Any]]:
    """The series of one query of the dashboard over the load. Raises SystemExit when Prometheus refuses it."""
    shown = f"{int(time.time() - began)}s"
    filled = query.replace("$__rate_interval", "10s").replace("$__range", shown)
    filled = re.sub(r'"\$(job|namespace|model)"', '".*"', filled)
    found = await prometheus.ask("query_range", query=filled, start=began, end=time.time(), step=1)
    return [s for s in found["result"] if any(value != "NaN" for _, value in s["values"])]


def _last(series: list[dict[str, Any]]) -> str:
    return ", ".join(f"{float(s['values'][-1][1]):.3g}" for s in series[:6]) + (" …" if len(series) > 6 else "")


async def panels(prometheus: Prometheus, began: float, keep: Path | None) -> int:
    """A line a query; returns how many had nothing to show."""
    empty = 0
    for panel in dashboard.panels():
        if panel["type"] == "row":
            print(f"\n{panel['title']}")
        for target in panel.get("targets", ()):
            series = await ask(prometheus, target["expr"], began)
            empty += not series
            label = panel["title"] + (f" ({target['legendFormat']})" if len(panel["targets"]) > 1 else "")
            print(f"  {'ok   ' if series else 'EMPTY'} {label:58} {_last(series)}", flush=True)
            if keep is not None:
                file = keep / f"{panel['id']:02}-{target['refId']}.json"
                kept = {"title": panel["title"], "legend": target["legendFormat"], "series": series}
                file.write_text(json.dumps(kept))
    groups = (await prometheus.ask("rules"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    broken = [rule["name"] for rule in rules if rule["health"] != "ok"]
    print(f"\n{len(rules)} alerts evaluated, {len(broken)} with errors {broken or ''}")
    return empty + len(broken)


async def main() -> int:
    keep = Path(sys.argv[sys.argv.index("--keep") + 1]) if "--keep" in sys.argv else None
    port, upstream_port = free_port(), free_port()
    url = f"http://127.0.0.1:{port}"
    valkey = Valkey()
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.callback(valkey.stop)
        upstream = (sys.executable, ROOT / "tests/deploy/upstream.py", str(upstream_port))
        stack.enter_context(process(*upstream, log=work / "upstream.log"))
        stack.enter_context(proxy(CONFIG.format(port=port, upstream=upstream_port, redis=valkey.address), work))
        prometheus = Prometheus(work, RULES.read_text())
        prometheus.scrape([port])
        stack.enter_context(prometheus.running())
        await until_up(f"{url}/healthz/ready")
        await until_up(f"{prometheus.url}/-/ready")
        await asyncio.sleep(2)
        began = time.time()
        load = Load(url, LOAD_S)
        await load.run()
        valkey.kill()  # last of all Redis stops; requests do not
        await Load(url, 5).run()
        await asyncio.sleep(2)
        lines = (work / "proxy.log").read_bytes().splitlines()
        print(f"answers by status: {load.answers}; log lines: {len(lines)}")
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / "proxy.log").write_bytes(b"\n".join(lines))
        return await panels(prometheus, began, keep)


if __name__ == "__main__":
    sys.exit(1 if asyncio.run(main()) else 0)
