"""The real `trimtab serve` as a process of its own: for what only a process can show (signals, limits of the
system, a crash, a restart), and for clients that are processes too.

    async with serving(upstream.base_url) as served:
        ...                                    # call served.base_url
    assert served.records()[0]["outcome"] == "passed"
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import aiohttp
import msgspec

from tests.support.scripted import closed_port

GREETING = ("trimtab ", "configuration: ", "health: ", "stopping: ", "stopped")
READY_S = 60  # seconds; a busy machine takes its time to import
CONFIG = '[[upstreams]]\nname = "test"\nbase_url = "{upstream}"\n'


@dataclass
class Served:
    """One process, its URL, and the files it writes its log and its errors to."""

    port: int
    folder: Path
    process: asyncio.subprocess.Process
    kept: dict[str, str] = field(default_factory=dict)  # the texts of the files, once they are gone

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        return self.url + "/v1"

    @property
    def log(self) -> str:
        return self._text("log")

    @property
    def errors(self) -> str:
        """What went to standard error, without the lines that greet."""
        lines = self._text("errors").splitlines()
        return "\n".join(line for line in lines if not line.startswith(GREETING))

    def keep(self) -> None:
        """Remember the texts of the files."""
        self.kept = {name: self._text(name) for name in ("log", "errors")}

    def _text(self, name: str) -> str:
        return self.kept[name] if self.kept else (self.folder / name).read_text(errors="replace")

    def records(self, event: str = "exchange") -> list[dict[str, Any]]:
        """The lines of the log of one kind."""
        lines = [msgspec.json.decode(line) for line in self.log.splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == event]

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.process.pid, number)

    async def ended(self, within_s: float = 60.0) -> int:
        """The exit status."""
        return await asyncio.wait_for(self.process.wait(), within_s)

    def rss_kb(self) -> int:
        """Resident memory, from /proc."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])

    def descriptors(self) -> dict[str, int]:
        """Open file descriptors, those that are sockets apart."""
        folder = f"/proc/{self.process.pid}/fd"
        targets: list[str] = []
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):
                targets.append(os.readlink(f"{folder}/{name}"))
        sockets = sum(target.startswith("socket:") for target in targets)
        return {"all": len(targets), "sockets": sockets}

    def threads(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/task"))


@contextlib.asynccontextmanager
async def serving(
    upstream: str,
    toml: str = "",
    *,
    port: int = 0,
    host: str = "127.0.0.1",
    env: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
    program: Sequence[str] = (sys.executable, "-m", "trimtab", "serve"),
    log: BinaryIO | None = None,
) -> AsyncIterator[Served]:
    """Start a proxy in front of `upstream` (a base URL) and stop it in the end, if it still runs. Keys in `toml`
    before its first table are the upstream's. `prefix` is a command to run it under, e.g. `prlimit`; `program`
    what takes the place of `trimtab serve`, `log` of the log's file."""
    port = port or closed_port()
    with tempfile.TemporaryDirectory(prefix="trimtab-") as name:
        folder = Path(name)
        (folder / "trimtab.toml").write_text(CONFIG.format(upstream=upstream) + toml)
        with (folder / "log").open("wb") as lines, (folder / "errors").open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *prefix,
                *program,
                *("--config", str(folder / "trimtab.toml"), "--port", str(port), "--host", host),
                stdout=log or lines,
                stderr=errors,
                env={**os.environ, **(env or {})},
            )
        served = Served(port, folder, process)
        try:
            await _ready(served)
            yield served
        finally:
            await _stop(served)
            served.keep()


async def _ready(served: Served) -> None:
    async with aiohttp.ClientSession() as session:
        for _ in range(READY_S * 20):
            assert served.process.returncode is None, served.errors
            with contextlib.suppress(OSError):
                async with session.get(served.url + "/healthz/ready") as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.05)
    raise TimeoutError(f"the proxy did not get ready within {READY_S} seconds: {served.errors}")


async def _stop(served: Served) -> None:
    """Two signals end it at once; one that does not end then is killed."""
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
        if served.process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            served.kill(number)
        with contextlib.suppress(TimeoutError):
            await served.ended(0.3 if number == signal.SIGTERM else 10)
