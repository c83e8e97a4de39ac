"""The whole proxy, listening on a free loopback port inside the test's event loop: the real server, the real client.

async with running(upstream.base_url) as proxy:
    ...                                    # call proxy.url, look at proxy.parts
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

import aiohttp
from granian.constants import HTTPModes, Interfaces
from granian.server.embed import Server

from tests.support.scripted import closed_port
from trimtab.server.app import create_app
from trimtab.server.parts import Parts
from trimtab.settings import Settings, parse


@dataclass
class Running:
    """A running proxy: its URL, its parts, and what it wrote to its log."""

    url: str
    parts: Parts
    _log: StringIO = field(default_factory=StringIO)

    @property
    def log(self) -> StringIO:
        self.parts.telemetry.settle()
        return self._log

    @property
    def base_url(self) -> str:
        return self.url + "/v1"

    async def metrics(self) -> str:
        async with aiohttp.ClientSession() as session, session.get(self.url + "/metrics") as answer:
            return await answer.text()


def settings(upstream: str, toml: str = "") -> Settings:
    """Settings with one upstream and whatever tables `toml` adds. Nothing is discovered unless it says so: scripted
    upstreams answer what they are asked in the order they are asked."""
    toml += "" if "[limits]" in toml else '[limits]\ndiscover = false\nask_usage = "never"\n'
    return parse(f'[[upstreams]]\nname = "test"\nbase_url = "{upstream}"\nretries = 0\n{toml}', {})


@contextlib.asynccontextmanager
async def running(upstream: str | Settings, toml: str = "", at: int = 0, **parts: Any) -> AsyncIterator[Running]:
    """Start a proxy in front of `upstream` (a base URL, or whole settings), at a port or at any free one."""
    made = upstream if isinstance(upstream, Settings) else settings(upstream, toml)
    port = at or closed_port()
    log = StringIO()
    held = Parts(made, log=log, **parts)
    server = Server(
        create_app(held),
        port=port,
        interface=Interfaces.ASGI,
        http=HTTPModes.http1,
        websockets=False,
        backlog=1024,
        backpressure=2000,
        log_enabled=False,
    )
    task = asyncio.ensure_future(server.serve())
    try:
        await _listening(port)
        yield Running(f"http://127.0.0.1:{port}", held, log)
    finally:
        server.stop()
        await task


async def _listening(port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.01)
    raise TimeoutError("the proxy did not listen within two seconds")


def sample(metrics: str, name: str) -> float:
    """The value of one series."""
    return float(next(line for line in metrics.splitlines() if line.startswith(name + " ")).rsplit(" ", 1)[1])
