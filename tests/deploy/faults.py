"""The fault matrix: every fault caused once on the real proxy, watched by a real Prometheus with our alerts.

    python -m tests.deploy.faults [--keep FOLDER]

Prints a Markdown table: the fault, what its client got, and the series, the alert and the log line it made. What is
expected and did not come is MISSING, and then the exit code is 1. The alerts are the file's own, their windows and
waits thirty times shorter. Takes two minutes; needs `prometheus`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp

from tests.deploy.fault_table import FAULTS, Fault
from tests.deploy.processes import RULES, Prometheus, proxy, shortened, until_up
from tests.support.scripted import ScriptedUpstream, closed_port
from tests.support.valkey import Valkey

FACTOR = 30
LOAD_S = 75  # the longest window and the longest wait of an alert caused here, thirty times shorter, and some more
EVERY_S = 0.5  # seconds between two requests of a client
MISSING = "**MISSING**"

_SERVER = """
[server]
port = {port}
max_in_flight = {most}
[limits]
discover = false
ask_usage = "never"
[telemetry]
log_format = "json"
"""
_SHARED = """
[redis]
url = "redis://{redis}/0"
[compaction]
model = "summaries"
max_summary_tokens = 300
summary_wait_s = 5.0
call_timeout_s = 5.0
[models."*"]
context_size = 8000
max_output_tokens = 1000
"""
_UPSTREAM = """
[[upstreams]]
name = "{name}"
base_url = "{base_url}"
models = {models}
read_timeout_s = 2.0
retries = 1
"""


async def meet(fault: Fault, url: str, ends: float, answers: Counter[str]) -> None:
    """One client that meets the fault again and again until the time is over, and counts what it got."""
    timeout = aiohttp.ClientTimeout(total=fault.leaves_after_s or 30.0)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        while time.monotonic() < ends:
            body = fault.request(fault.upstream)
            try:
                async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
                    answers[_received(answer.status, await answer.text())] += 1
            except TimeoutError:
                answers["went away"] += 1
            except aiohttp.ClientError as error:
                answers[type(error).__name__] += 1
            await asyncio.sleep(EVERY_S)


def _received(status: int, text: str) -> str:
    """The status, and the code of the error in the body or in the last event of a stream."""
    for line in reversed([text, *text.split("data: ")]):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            error = json.loads(line)["error"]
            return f"{status} {error.get('code') or error.get('type')}"
    return str(status)


class Run:
    """Two proxies, their upstreams, Redis and Prometheus. The second proxy takes one request at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.answers: dict[str, Counter[str]] = {fault.name: Counter() for fault in FAULTS}
        self.prometheus = Prometheus(folder, shortened(RULES.read_text(), FACTOR))
        self._ports = {"proxy": closed_port(), "small": closed_port()}
        self._valkey = Valkey()

    async def load(self, stack: contextlib.AsyncExitStack) -> None:
        """Start everything, cause every fault, and end when the alerts have had their time."""
        stack.callback(self._valkey.stop)
        configured = [await self._configured(stack, fault) for fault in FAULTS]
        shared = _SHARED.format(redis=self._valkey.address)
        large = _SERVER.format(port=self._ports["proxy"], most=2000) + shared + "".join(configured)
        small = _SERVER.format(port=self._ports["small"], most=1) + "".join(configured)
        self.serving = stack.enter_context(proxy(large, self.folder, "proxy"))
        stack.enter_context(proxy(small, self.folder, "small"))
        stack.enter_context(self.prometheus.running())
        self.prometheus.scrape(list(self._ports.values()))
        for port in self._ports.values():
            await until_up(f"http://127.0.0.1:{port}/healthz/ready")
        await until_up(f"{self.prometheus.url}/-/ready")
        await self._meet_all()

    async def _configured(self, stack: contextlib.AsyncExitStack, fault: Fault) -> str:
        """The upstream's table in the configuration, with a server behind it where the fault has one."""
        port = closed_port()
        if fault.script is not None:
            port = (await stack.enter_async_context(ScriptedUpstream(fault.script))).port
        models = [fault.upstream, "long"] if fault.upstream == "good" else [fault.upstream]
        base_url = fault.base_url.format(port=port)
        return _UPSTREAM.format(name=fault.upstream, base_url=base_url, models=json.dumps(models))

    async def _meet_all(self) -> None:
        ends = time.monotonic() + LOAD_S
        clients = [
            meet(fault, self._url(fault), ends, self.answers[fault.name])
            for fault in FAULTS
            for _ in range(fault.clients)
        ]
        asyncio.get_running_loop().call_later(5.0, self._valkey.kill)
        await asyncio.gather(*clients)
        await asyncio.sleep(2)  # a last scrape

    def _url(self, fault: Fault) -> str:
        return f"http://127.0.0.1:{self._ports['small' if fault.overload else 'proxy']}"

    def lines(self) -> list[dict[str, Any]]:
        """The log of both proxies."""
        texts = [(self.folder / f"{name}.log").read_text() for name in ("proxy", "small")]
        return [json.loads(line) for text in texts for line in text.splitlines() if line.startswith("{")]

    async def fires(self, alert: str) -> bool:
        """Whether an alert, as a selector, has fired at any time."""
        name, _, labels = alert.rstrip("}").partition("{")
        chosen = ", ".join(filter(None, (f'alertname="{name}", alertstate="firing"', labels)))
        return bool(await self.prometheus.value(f"max_over_time(ALERTS{{{chosen}}}[5m])"))

    async def fires_within(self, alert: str, seconds: float) -> bool:
        """Whether an alert fires within some seconds from now."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            if await self.fires(alert):
                return True
            await asyncio.sleep(1)
        return False


async def row(run: Run, fault: Fault, lines: list[dict[str, Any]]) -> str:
    """One line of the table."""
    series = []
    for query in fault.series:
        value = await run.prometheus.value(f"max_over_time(({query})[5m:1s])")
        series.append(f"`{query}` {f'{value:g}' if value else MISSING}")
    alerts = [f"`{alert}`" + ("" if await run.fires(alert) else f" {MISSING}") for alert in fault.alerts]
    got = _joined([f"{answer} ({count})" for answer, count in run.answers[fault.name].most_common()])
    return _cells(fault.name, fault.cause, got, _joined(series), _joined(alerts) or "none", _line(fault, lines))


def _line(fault: Fault, lines: list[dict[str, Any]]) -> str:
    """The fields of the last log line that has all those expected, or of the nearest one and what it lacks."""
    nearest = max(reversed(lines), key=lambda line: sum(_has(line, *field) for field in fault.log.items()))
    lacking = [f"{key}={value}" for key, value in fault.log.items() if not _has(nearest, key, value)]
    shown = " ".join(f"{key}={nearest[key]}" for key in fault.log if key in nearest)
    return f"`{shown}`" + (f" {MISSING}: `{' '.join(lacking)}`" if lacking else "")


def _has(line: dict[str, Any], key: str, value: Any) -> bool:
    return bool(line.get(key)) if value is True else line.get(key) == value


def _joined(items: list[str]) -> str:
    return "<br>".join(items)


def _cells(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


async def gone(run: Run) -> list[str]:
    """The last two faults: the proxy is killed, and then no target is left for Prometheus to scrape."""
    run.serving.kill()
    down = await run.fires_within("TrimtabDown", 60)
    run.prometheus.scrape([])
    absent = await run.fires_within("TrimtabAbsent", 60)
    return [
        _cells("proxy killed", "SIGKILL", "–", "`up` 0", f"`TrimtabDown` {'' if down else MISSING}", "–"),
        _cells("no target", "no replica", "–", "none", f"`TrimtabAbsent` {'' if absent else MISSING}", "–"),
    ]


async def matrix(folder: Path) -> int:
    """Cause every fault, print the table, and return how many rows lack something."""
    async with contextlib.AsyncExitStack() as stack:
        run = Run(folder)
        await run.load(stack)
        lines = run.lines()
        table = [await row(run, fault, lines) for fault in FAULTS] + await gone(run)
    head = ("fault", "cause", "the client got", "series", "alert", "log line")
    print(_cells(*head), _cells(*["---"] * len(head)), *table, sep="\n")
    wrong = sum(MISSING in line for line in table)
    print(f"\n{len(table) - wrong} of {len(table)} faults left everything they should.")
    return wrong


def main() -> int:
    with contextlib.ExitStack() as stack:
        kept = sys.argv[sys.argv.index("--keep") + 1] if "--keep" in sys.argv else None
        folder = Path(kept or stack.enter_context(tempfile.TemporaryDirectory())).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        return 1 if asyncio.run(matrix(folder)) else 0


if __name__ == "__main__":
    sys.exit(main())
