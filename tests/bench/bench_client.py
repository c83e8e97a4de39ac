"""How much our client costs beside httpx: requests a second, CPU a request, CPU a streamed event.

    python -m tests.bench.bench_client [--requests 1500] [--events 4000] [--rounds 3]

Three clients call the same loopback upstream (a process of its own) in turn, several rounds in one run; the
best round of each counts, and only ratios are worth quoting. `httpx` is its AsyncClient as it comes, `httpx
over aiohttp` is the transport of httpx-aiohttp called directly, `ours` is `trimtab.upstream.client.Client`.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import aiohttp
import httpx
import uvloop
from httpx_aiohttp import AiohttpTransport

from tests.support.scripted import Pause, ScriptedUpstream, json_reply, sse_reply
from trimtab.upstream.client import Client, open_session
from trimtab.upstream.settings import UpstreamSettings

BODY = b'{"model":"m","messages":[]}' * 100
HEADERS = [
    (b"content-type", b"application/json"),
    (b"authorization", b"Bearer x"),
    (b"user-agent", b"bench"),
    (b"accept", b"application/json"),
    (b"x-stainless-lang", b"python"),
    (b"content-length", b"%d" % len(BODY)),
]
EVENT = b'{"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"hello"}}]}'
IN_FLIGHT = 8
PER_STREAM = 100

One = Callable[[str], Awaitable[int]]


class Cost(NamedTuple):
    requests_a_second: float
    cpu_us_a_request: float
    cpu_us_an_event: float


async def serve() -> None:
    """The upstream: one event every millisecond, so that each arrives alone as from a real model."""
    events = [step for _ in range(PER_STREAM) for step in (EVENT, Pause(0.001))]
    whole, stream = json_reply({"ok": True}), sse_reply(*events, done=False)
    async with ScriptedUpstream(lambda got: stream if got.target == "/stream" else whole) as server:
        print(server.origin, flush=True)
        await asyncio.Event().wait()


async def cost(one: One, requests: int, events: int) -> Cost:
    async def worker(path: str, times: int) -> int:
        return sum([await one(path) for _ in range(times)])

    async def crowd(path: str, times: int) -> tuple[float, float, int]:
        began, cpu = time.perf_counter(), time.process_time()
        bytes_read = sum(await asyncio.gather(*(worker(path, times // IN_FLIGHT) for _ in range(IN_FLIGHT))))
        return time.perf_counter() - began, time.process_time() - cpu, bytes_read

    await worker("/whole", 20)
    took, cpu, _ = await crowd("/whole", requests)
    _, stream_cpu, read = await crowd("/stream", events // PER_STREAM)
    return Cost(requests / took, cpu / requests * 1e6, stream_cpu / (read / (len(EVENT) + 8)) * 1e6)


def over_httpx(client: httpx.AsyncClient, origin: str) -> One:
    async def one(path: str) -> int:
        async with client.stream("POST", origin + path, content=BODY, headers=HEADERS) as response:
            return sum([len(chunk) async for chunk in response.aiter_raw()])

    return one


def over_transport(transport: AiohttpTransport, origin: str) -> One:
    async def one(path: str) -> int:
        request = httpx.Request("POST", origin + path, content=BODY, headers=HEADERS)
        response = await transport.handle_async_request(request)
        read = sum([len(chunk) async for chunk in response.stream])
        await response.aclose()
        return read

    return one


def over_ours(client: Client, origin: str) -> One:
    upstream = UpstreamSettings(name="bench", base_url=origin)

    async def one(path: str) -> int:
        async with await client.send(upstream, "POST", path, b"", HEADERS, BODY) as answer:
            return sum([len(chunk) async for chunk in answer.chunks()])

    return one


async def measure(origin: str, requests: int, events: int, rounds: int) -> dict[str, Cost]:
    session: aiohttp.ClientSession = open_session()
    ours, transport = Client(), AiohttpTransport(client=session)
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=None)) as client:
        ways = {
            "httpx": over_httpx(client, origin),
            "httpx over aiohttp": over_transport(transport, origin),
            "ours": over_ours(ours, origin),
        }
        runs: dict[str, list[Cost]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, one in ways.items():
                runs[name].append(await cost(one, requests, events))
    await ours.aclose()
    await session.close()
    return {name: _best(costs) for name, costs in runs.items()}


def _best(costs: list[Cost]) -> Cost:
    return Cost(
        max(cost.requests_a_second for cost in costs),
        min(cost.cpu_us_a_request for cost in costs),
        min(cost.cpu_us_an_event for cost in costs),
    )


def report(costs: dict[str, Cost]) -> None:
    base = costs["httpx"]
    print(f"{'':20}{'requests/s':>12}{'CPU/request':>14}{'CPU/event':>12}   against httpx")
    for name, cost in costs.items():
        ratios = (
            cost.requests_a_second / base.requests_a_second,
            base.cpu_us_a_request / cost.cpu_us_a_request,
            base.cpu_us_an_event / cost.cpu_us_an_event,
        )
        shown = f"{cost.requests_a_second:12.0f}{cost.cpu_us_a_request:11.0f} us{cost.cpu_us_an_event:9.1f} us"
        print(f"{name:20}{shown}   " + ", ".join(f"{ratio:.1f} x" for ratio in ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--requests", type=int, default=1500)
    parser.add_argument("--events", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        uvloop.run(serve())
        return
    command = [sys.executable, "-m", "tests.bench.bench_client", "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        origin = server.stdout.readline().strip()
        report(uvloop.run(measure(origin, given.requests, given.events, given.rounds)))
        server.terminate()


if __name__ == "__main__":
    main()
