"""The real processes of a run: the proxy, and a Prometheus that scrapes it with our alerts loaded. Each writes its log
into a file of the run's folder and is ended with the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from tests.deploy.tools import ROOT, path
from tests.support.valkey import free_port

RULES = ROOT / "helm/files/alerts.yaml"
_CONFIG = """
global: {{ scrape_interval: 1s, evaluation_interval: 1s }}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: trimtab
    file_sd_configs: [{{ files: ["{targets}"], refresh_interval: 1s }}]
"""
_SECONDS = {"s": 1, "m": 60, "h": 3600}


@contextlib.contextmanager
def process(*command: str | Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended at the end. What it writes goes to the file `log`."""
    with log.open("wb") as out, subprocess.Popen(list(map(str, command)), cwd=ROOT, stdout=out, stderr=out) as running:
        try:
            yield running
        finally:
            running.terminate()


@contextlib.contextmanager
def proxy(config: str, folder: Path, name: str = "proxy") -> Iterator[subprocess.Popen[bytes]]:
    """`trimtab serve` with a configuration; its log is `NAME.log` in the folder."""
    file = folder / f"{name}.toml"
    file.write_text(config)
    with process(sys.executable, "-m", "trimtab", "serve", "--config", file, log=folder / f"{name}.log") as running:
        yield running


def shortened(rules: str, factor: int) -> str:
    """Alerts whose windows and waits are `factor` times shorter, so that a run of a minute is long enough: the
    durations are replaced in the text and everything else stays."""

    def shorter(found: re.Match[str]) -> str:
        return f"{found[1]}{max(1, int(found[2]) * _SECONDS[found[3]] // factor)}s"

    return re.sub(r"(\[|for: |offset )(\d+)([smh])\b", shorter, rules)


class Prometheus:
    """A Prometheus that scrapes and evaluates every second, asked over its HTTP API."""

    def __init__(self, folder: Path, rules: str) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._folder, self._targets = folder, folder / "targets.json"
        (folder / "alerts.yaml").write_text(rules)
        (folder / "prometheus.yml").write_text(_CONFIG.format(rules=folder / "alerts.yaml", targets=self._targets))
        self._command = (
            path("prometheus"),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        )
        self.scrape([])

    def scrape(self, ports: Sequence[int]) -> None:
        """Scrape what listens on these loopback ports from now on, and nothing else."""
        targets = [{"targets": [f"127.0.0.1:{port}" for port in ports]}]
        self._targets.write_text(json.dumps(targets if ports else []))

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Start it, and end it at the end."""
        with process(*self._command, log=self._folder / "prometheus.log"):
            yield

    async def ask(self, what: str, **parameters: Any) -> Any:
        """The `data` of one call of its API. Raises SystemExit when it refuses."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.url}/api/v1/{what}", params=parameters) as answer,
        ):
            found = await answer.json()
        if found["status"] != "success":
            raise SystemExit(f"{parameters}: {found['error']}")
        return found["data"]

    async def value(self, query: str) -> float | None:
        """The largest value of a query now; None without any series."""
        series = (await self.ask("query", query=query))["result"]
        return max((float(one["value"][1]) for one in series), default=None)


async def until_up(url: str) -> None:
    """Wait until a URL answers 200. Raises SystemExit after two minutes."""
    async with aiohttp.ClientSession() as session:
        ends = time.monotonic() + 120  # a busy machine takes its time
        while time.monotonic() < ends:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(url) as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.1)
    raise SystemExit(f"{url} does not come up")
