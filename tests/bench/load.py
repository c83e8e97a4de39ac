"""The load generator: one request after the other, many at once, and paced streams.

Latency is taken with a blocking socket, because an event loop in the client would add its own turn to every figure,
and the ways are called in turn within each round, so that a busy moment of the machine meets all of them alike.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from tests.bench.servers import Server


class Load(NamedTuple):
    """What one round of load came to. `cpu_s`: of the server measured, in seconds, over all its requests."""

    requests: int
    errors: int
    seconds: float
    cpu_s: float


class Streams(NamedTuple):
    chunks: int
    broken: int
    seconds: float
    cpu_s: float


class Peak(NamedTuple):
    """Resident bytes: before, the most seen meanwhile, and some seconds afterwards."""

    before: int
    most: int
    after: int
    errors: int


def request(server: Server, body: bytes, **headers: str) -> bytes:
    """The bytes of a request as an SDK sends them."""
    lines = [
        f"POST {server.path} HTTP/1.1",
        f"host: 127.0.0.1:{server.port}",
        "content-type: application/json",
        "accept: application/json",
        "authorization: Bearer sk-bench",
        "user-agent: OpenAI/Python 1.60.0",
        "x-stainless-lang: python",
        "x-stainless-retry-count: 0",
        *(f"{name}: {value}" for name, value in server.headers),
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
        f"content-length: {len(body)}",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


# -- one at a time -----------------------------------------------------------------------------------------------


def latencies(
    servers: Sequence[Server], bodies: Callable[[int], bytes], rounds: int, warm: int = 5, most_s: float = 45.0
) -> dict[str, list[float]]:
    """Seconds of each request, by server. `bodies` makes the body of the n-th request; it is not timed. The first
    `warm` rounds are not counted; after `most_s` seconds no further one begins, once there were ten. A server that
    fails is left out from then on, and of the result."""
    lines = {server.name: _Line(server) for server in servers}
    found: dict[str, list[float]] = {server.name: [] for server in servers}
    numbers = itertools.count(1)
    stop = time.perf_counter() + most_s
    for round_ in range(rounds + warm):
        if time.perf_counter() > stop and round_ >= warm + 10:
            break
        shift = round_ % len(servers)
        for server in [*servers[shift:], *servers[:shift]]:
            data = request(server, bodies(next(numbers)))
            took = lines[server.name].call(data) if server.name in found else None
            if took is None:
                found.pop(server.name, None)
            elif round_ >= warm:
                found[server.name].append(took)
    for line in lines.values():
        line.close()
    return found


class _Line:
    """A connection kept alive, and renewed before servers lose patience: uvicorn's ends after five idle seconds."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._socket: socket.socket | None = None
        self._used = 0.0

    def call(self, data: bytes) -> float | None:
        """Seconds from the first byte sent to the last received; None for a failure or another status than 200."""
        try:
            if self._socket is None or time.perf_counter() - self._used > 3:
                self.close()
                self._socket = socket.create_connection(("127.0.0.1", self._server.port), 60)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            began = time.perf_counter()
            self._socket.sendall(data)
            status = _read(self._socket)
        except OSError:
            return None
        self._used = time.perf_counter()
        return self._used - began if status == 200 else None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


def _read(opened: socket.socket) -> int:
    """Read one answer; its status."""
    reader = _Reader()
    while not reader.feed(data := opened.recv(65536)):
        if not data:
            raise ConnectionError("the server closed the connection")
    return reader.status


class _Reader:
    """Says when an answer is complete; counts its events."""

    def __init__(self) -> None:
        self._head = b""
        self._open = True
        self._tail = b""
        self._missing = -1
        self.status = 0

    def feed(self, data: bytes) -> bool:
        if self._open:
            self._head += data
            head, blank, data = self._head.partition(b"\r\n\r\n")
            if not blank:
                return False
            self._open = False
            self.status = int(head[9:12])
            length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
            self._missing = int(length) if length else -1
        if self._missing >= 0:
            self._missing -= len(data)
            return self._missing <= 0
        self._tail = (self._tail + data)[-5:]
        return self._tail == b"0\r\n\r\n"


# -- many at once ------------------------------------------------------------------------------------------------


class _Connection(asyncio.Protocol):
    """Sends the next request as soon as the last is answered, until there is none."""

    def __init__(self, requests: Iterator[bytes], left: Callable[[bool], None]) -> None:
        self._requests, self._left = requests, left
        self._done = False
        self.answered = self.events = self.errors = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._next()

    def data_received(self, data: bytes) -> None:
        self.events += data.count(b'"delta"')
        if self._reader.feed(data):
            self.answered += 1
            self.errors += self._reader.status != 200
            self._next()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._done:
            self.errors += 1
            self._left(False)

    def _next(self) -> None:
        self._reader = _Reader()
        data = next(self._requests, None)
        if data is not None:
            self._transport.write(data)
            return
        self._done = True
        self._left(True)
        self._transport.close()


async def crowd(server: Server, feeds: Iterable[Iterator[bytes]], apart_s: float = 0.0) -> list[_Connection]:
    """Run one connection for each feed of requests to its end."""
    loop = asyncio.get_running_loop()
    connections, ends = [], []
    for feed in feeds:
        end: asyncio.Future[bool] = loop.create_future()
        made = _Connection(feed, end.set_result)
        await loop.create_connection(lambda made=made: made, "127.0.0.1", server.port)  # type: ignore[misc]
        connections.append(made)
        ends.append(end)
        await asyncio.sleep(apart_s)
    await asyncio.gather(*ends)
    return connections


async def throughput(server: Server, body: bytes, concurrency: int, seconds: float, numbered: str = "") -> Load:
    """Requests in a closed loop of `concurrency` connections for some seconds. `numbered`: a header whose value is
    another one on each connection."""
    stop = time.perf_counter() + seconds

    def feed(number: int) -> Iterator[bytes]:
        data = request(server, body, **({numbered: f"number-{number}"} if numbered else {}))
        while time.perf_counter() < stop:
            yield data

    began, cpu = time.perf_counter(), server.cpu_s()
    done = await crowd(server, [feed(number) for number in range(concurrency)])
    took = time.perf_counter() - began
    return Load(sum(c.answered for c in done), sum(c.errors for c in done), took, server.cpu_s() - cpu)


async def streams(server: Server, body: bytes, concurrency: int) -> Streams:
    """Concurrent paced streams, begun a little apart so that their events do not come in step."""
    data = request(server, body)
    began, cpu = time.perf_counter(), server.cpu_s()
    done = await crowd(server, [iter([data]) for _ in range(concurrency)], apart_s=0.0017)
    took = time.perf_counter() - began
    return Streams(sum(c.events for c in done), sum(c.errors for c in done), took, server.cpu_s() - cpu)


async def memory(server: Server, body: bytes, concurrency: int, rest_s: float) -> Peak:
    """Resident memory under requests that are all in flight together: the upstream holds each for a second."""
    data = request(server, body, x_bench_wait="1000")
    before = most = server.memory()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(crowd(server, [iter([data]) for _ in range(concurrency)]))
        while not running.done():
            most = max(most, server.memory())
            await asyncio.sleep(0.02)
    await asyncio.sleep(rest_s)
    return Peak(before, most, server.memory(), sum(c.errors for c in running.result()))
