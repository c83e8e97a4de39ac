"""Starting what is measured, each as a process of its own, and reading from /proc what it costs. Linux only.

Everything measured runs on the first core; the upstream and the load generator share the others. On two cores that is
the only split in which neither side takes time from the other, and it makes requests a second a measure of work
done, also for servers with threads.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FITS, SHAPED = "fits", "shaped"  # model names: one takes anything, one a part of 100,000 tokens
SHAPED_WINDOW = 65_536

_CORES = sorted(os.sched_getaffinity(0))
MEASURED = {_CORES[0]}
OTHERS = set(_CORES[1:]) or MEASURED

CONFIG = """
[[upstreams]]
name = "bench"
base_url = "{origin}/v1"

[models.{fits}]
context_size = 4000000
max_output_tokens = 4096

[models.{shaped}]
context_size = {window}
max_output_tokens = 4096
"""

_NGINX = """
worker_processes 1; pid {at}/nginx.pid; error_log {at}/nginx.log; daemon off;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_max_body_size 0; keepalive_requests 10000000;
  client_body_temp_path {at}/body; proxy_temp_path {at}/proxy; fastcgi_temp_path {at}/f;
  uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;
  upstream up {{ server {host}; keepalive 256; keepalive_requests 10000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_request_buffering off;
    }}
  }}
}}
"""


class Unavailable(Exception):
    """Why something cannot be measured here."""


@dataclass
class Server:
    """Something that listens on a loopback port. `start_s`: seconds from its launch to its first answer."""

    name: str
    port: int
    process: subprocess.Popen[bytes]
    start_s: float = 0.0
    headers: tuple[tuple[str, str], ...] = ()
    path: str = "/v1/chat/completions"
    _seen: set[int] = field(default_factory=set)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cpu_s(self) -> float:
        """CPU seconds of the process and its children so far."""
        return sum(_cpu_s(pid) for pid in family(self.process.pid))

    def memory(self) -> int:
        """Resident bytes of the process and its children."""
        return sum(_resident(pid) for pid in family(self.process.pid))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(8)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def family(root: int) -> list[int]:
    """The process and its descendants."""
    found = [root]
    for pid in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def _cpu_s(pid: int) -> float:
    total = 0
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def launch(
    name: str,
    command: Sequence[str],
    port: int,
    log: Path,
    *,
    env: dict[str, str] | None = None,
    cores: set[int] = MEASURED,
    patience_s: float = 60.0,
    ready: str = "",
) -> Server:
    """Start a process and wait until it accepts connections (with `ready`: until that path answers 200)."""
    began = time.perf_counter()
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **(env or {})})
    os.sched_setaffinity(process.pid, cores)
    server = Server(name, port, process)
    while time.perf_counter() - began < patience_s:
        if process.poll() is not None:
            raise Unavailable(f"{name} did not start: {_tail(log)}")
        if _answers(port, ready):
            server.start_s = time.perf_counter() - began
            return server
        time.sleep(0.005)
    server.stop()
    raise Unavailable(f"{name} did not listen within {patience_s:.0f} s: {_tail(log)}")


def _answers(port: int, path: str) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0) as probe:
        if not path:
            return True
        probe.sendall(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n".encode())
        return b" 200 " in probe.recv(64)
    return False


def _tail(log: Path) -> str:
    return " ".join(log.read_text(errors="replace").split()[-30:])


def start_upstream(at: Path) -> Server:
    port = free_port()
    command = [sys.executable, "-m", "tests.bench.upstream", str(port)]
    return launch("direct", command, port, at / "upstream.log", cores=OTHERS)


def start_trimtab(origin: str, at: Path, first: str = "") -> Server:
    """The proxy as its command starts it. `first` is Python that its process runs before."""
    port = free_port()
    config = at / "trimtab.toml"
    config.write_text(CONFIG.format(origin=origin, fits=FITS, shaped=SHAPED, window=SHAPED_WINDOW))
    run = f"{first}\nfrom trimtab.cli import main; main()"
    command = [sys.executable, "-c", run, "serve", "--config", str(config), "--port", str(port)]
    return launch("trimtab", command, port, at / "trimtab.log", ready="/healthz/live")


def start_floor(origin: str, at: Path, first: str = "") -> Server:
    """The floor; `first` as for `start_trimtab`."""
    port = free_port()
    run = f"{first}\nimport runpy; runpy.run_module('tests.bench.floor', run_name='__main__')"
    command = [sys.executable, "-c", run, str(port), origin]
    return launch("floor", command, port, at / "floor.log")


def start_bare(origin: str, at: Path) -> Server:
    port = free_port()
    command = [sys.executable, "-m", "tests.bench.bare", str(port), origin]
    return launch("bare", command, port, at / "bare.log")


def start_nginx(origin: str, at: Path) -> Server:
    binary = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if binary is None:
        raise Unavailable("nginx is not installed (Debian: nginx-light)")
    port = free_port()
    config = at / "nginx.conf"
    config.write_text(_NGINX.format(at=at, host=origin.removeprefix("http://"), port=port))
    return launch("nginx", [binary, "-p", str(at), "-c", str(config)], port, at / "nginx.log")


@contextlib.contextmanager
def stopped_after(servers: list[Server]) -> Iterator[list[Server]]:
    """Stop every server of the list at the end, whatever happens; the list may grow meanwhile."""
    try:
        yield servers
    finally:
        for server in reversed(servers):
            server.stop()
