"""The demo's proxy: the real server in a process of its own, started by the command anyone would use.

It gets the upstream and the window; everything else is its default.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

import click
import httpx

import trimtab

_START_S = 60.0  # a cold start on a busy machine
_STOP_S = 5.0


class Running:
    """The running proxy: `with Running(upstream_url, window, reserve, log) as proxy:`, then `proxy.wait()`. `window`
    and `reserve`, the output cap, are in tokens. `config` is the path of a configuration file."""

    def __init__(self, upstream: str, window: int, reserve: int, log: IO[bytes], config: str = "") -> None:
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._log = log
        command = [sys.executable, "-m", "trimtab", "serve", "--upstream", upstream, "--port", str(self._port)]
        command += ["--config", config] if config else []
        self._process = subprocess.Popen(  # noqa: S603  our own interpreter and arguments
            command, env=environment(window, reserve), stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )

    def __enter__(self) -> Running:
        return self

    def wait(self) -> None:
        """Wait until the proxy is ready. Raises ClickException, with its log, when it does not start."""
        until = time.monotonic() + _START_S
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > until:
                raise click.ClickException(f"The proxy did not start:\n{self._end_of_log()}")
            time.sleep(0.05)

    def __exit__(self, *_: object) -> None:
        """Stop at once: a second signal skips the time that the server gives to load balancers."""
        until = time.monotonic() + _STOP_S
        while self._process.poll() is None:
            (self._process.terminate if time.monotonic() < until else self._process.kill)()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.2)

    def _ready(self) -> bool:
        with suppress(httpx.HTTPError):
            return httpx.get(f"{self.url}/healthz/ready", trust_env=False, timeout=2.0).is_success
        return False

    def _end_of_log(self) -> str:
        self._log.seek(0)
        return self._log.read().decode("utf-8", "replace")[-2000:]


def environment(window: int, reserve: int) -> dict[str, str]:
    """This process's environment, without variables that configure the proxy, with the upstream's limits in tokens."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TRIMTAB_", "LLM_"))}
    package = str(Path(trimtab.__file__).parent.parent)
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    limits = {"LLM_CONTEXT_SIZE": str(window), "LLM_MAX_OUTPUT_TOKENS": str(reserve)}
    return {**kept, **limits, "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
