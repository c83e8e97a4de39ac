"""Redis killed, frozen, full, slow, talking garbage, failing over: requests go on at their pace, with their summaries,
and what is made afterwards is shared again. Real servers; real replicas of the proxy."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Callable

import pytest

from tests.acceptance.remembering import COMPACTION, WINDOW, Both, asking, facts, talk
from tests.support.chat import Call, post
from tests.support.running import Running, running
from tests.support.scripted import ScriptedUpstream
from tests.support.valkey import Cluster, Valkey, Watched

pytestmark = pytest.mark.anyio

EXTRA_S = 0.1  # what a request may take longer than without the fault
numbers = iter(range(1_000, 90_000, 100))


async def timed(proxy: Running, body: bytes) -> tuple[float, Call]:
    began = time.perf_counter()
    got = await post(proxy.url, body, authorization="Bearer one")
    return time.perf_counter() - began, got


async def pace(proxy: Running, body: bytes, times: int = 15) -> float:
    """Median seconds of a request whose summary is there. All are answered, and the summary is."""
    took = []
    for _ in range(times):
        seconds, got = await timed(proxy, body)
        assert got.status == 200
        assert got.headers["x-trimtab-summary"] in ("hit", "miss")
        took.append(seconds)
    assert max(took) < 2
    return statistics.median(took)


async def shared_again(one: Running, two: Running, model: Both, within_s: float = 30) -> None:
    """Wait until what one replica makes is found by the other."""
    ends = time.monotonic() + within_s
    while time.monotonic() < ends:
        body = asking(talk(14, first=next(numbers)))
        await timed(one, body)
        calls = len(model.summaries)
        _, got = await timed(two, body)
        if len(model.summaries) == calls and got.headers["x-trimtab-summary"] == "hit":
            assert facts(model.last) == facts(body)
            return
        await asyncio.sleep(0.2)
    raise AssertionError("the replicas do not share summaries again")


@contextlib.asynccontextmanager
async def replicas(model: Both, url: str) -> AsyncIterator[tuple[Running, Running]]:
    toml = f'{WINDOW}{COMPACTION}[redis]\nurl = "{url}"\n'
    async with (
        ScriptedUpstream(model) as upstream,
        running(upstream.base_url, toml) as one,
        running(upstream.base_url, toml) as two,
    ):
        yield one, two


async def survives(url: str, fault: Callable[[], object], repair: Callable[[], object]) -> None:
    model, body = Both(), asking(talk(14))
    async with replicas(model, url) as (one, two):
        await shared_again(one, two, model)
        await timed(one, body)
        normal = await pace(one, body)
        fault()
        during = await pace(one, body)
        fresh, got = await timed(one, asking(talk(14, first=next(numbers))))
        assert got.status == 200
        repair()
        await shared_again(one, two, model)
    assert during < normal + EXTRA_S
    assert fresh < normal + 5 * EXTRA_S  # reads, a lock, a pause, a write, and the call of the model itself


@pytest.mark.parametrize(("fault", "repair"), [("kill", "start"), ("freeze", "thaw")])
async def test_one_server(redis: Valkey, fault: str, repair: str) -> None:
    await survives(f"redis://{redis.address}", getattr(redis, fault), getattr(redis, repair))


async def test_full(redis: Valkey) -> None:
    """Nothing can be written: each replica has its own summaries until there is room again."""

    def fill() -> None:
        redis.client().config_set("maxmemory", "1")

    await survives(f"redis://{redis.address}", fill, lambda: redis.client().config_set("maxmemory", "0"))


async def test_sentinel_moves_the_primary() -> None:
    servers = Watched()
    try:
        await survives(servers.url, servers.primary.kill, lambda: None)
    finally:
        servers.stop()


async def test_a_cluster_moves_a_shard() -> None:
    servers = Cluster(replicas=True)
    try:
        await survives(servers.url, servers.masters[0].kill, lambda: None)
    finally:
        servers.stop()


class Between:
    """A wire between the proxy and the real server that can be made slow, or to talk garbage."""

    def __init__(self, port: int) -> None:
        self._to, self.delay_s, self.garbage = port, 0.0, b""

    async def __aenter__(self) -> Between:
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            back, on = await asyncio.open_connection("127.0.0.1", self._to)
            await asyncio.gather(self._carry(reader, on, False), self._carry(back, writer, True))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: bool) -> None:
        while data := await reader.read(65_536):
            if answers:
                await asyncio.sleep(self.delay_s)
            writer.write(self.garbage or data if answers else data)
        writer.close()


@pytest.mark.parametrize("fault", [{"delay_s": 0.4}, {"garbage": b"HTTP/1.1 400 Bad Request\r\n\r\n"}])
async def test_a_bad_wire(redis: Valkey, fault: dict[str, object]) -> None:
    async with Between(redis.port) as wire:

        def spoil() -> None:
            vars(wire).update(fault)

        def mend() -> None:
            wire.delay_s, wire.garbage = 0.0, b""

        await survives(f"redis://127.0.0.1:{wire.port}", spoil, mend)
