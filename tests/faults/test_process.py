"""What can happen to the process, done to a real `trimtab serve`: signals, a kill, a restart, no descriptors, no disk,
a jumping clock, too much at once, an upstream that goes away and comes back.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.support.chat import COMPLETION, WINDOW, post
from tests.support.conversations import agent_run, chat
from tests.support.memory_group import memory_group
from tests.support.running import sample
from tests.support.scripted import STALL, Pause, Received, ScriptedUpstream, Step, closed_port, json_reply, sse_reply
from tests.support.served import Served, serving
from tests.support.valkey import Valkey

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]
SERVER = "[server]\ndrain_s = {drain}\ngrace_s = {grace}\n"
EVENT = b'{"choices":[{"index":0,"delta":{"content":"word "}}]}'
STREAM = {"model": "m", "stream": True, "messages": chat(1)}


def slow_stream(events: int, pause: float) -> list[Step]:
    return sse_reply(*[step for _ in range(events) for step in (EVENT, Pause(pause))])


def mixed(stream: list[Step], pause: float = 0.0) -> Callable[[Received], list[Step]]:
    """Streams as given, all else is a completion."""
    return lambda r: stream if streams(r) else [Pause(pause), *json_reply(COMPLETION)]


def streams(received: Received) -> bool:
    return bool(received.body) and received.json().get("stream") is True


class Streams:
    """Many streams opened at once; `begun` counts those whose first byte has come."""

    def __init__(self) -> None:
        self.begun = 0

    async def read(self, session: aiohttp.ClientSession, url: str) -> bytes:
        """A whole stream; ends early with what came when the connection breaks."""
        received: list[bytes] = []
        try:
            async with session.post(url + "/v1/chat/completions", json=STREAM) as answer:
                async for piece in answer.content.iter_any():
                    self.begun += not received
                    received.append(piece)
        except aiohttp.ClientError:
            pass
        return b"".join(received)

    async def all_begun(self, count: int) -> None:
        while self.begun < count:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_sigterm_with_200_open_streams_loses_none() -> None:
    opened = Streams()
    async with (
        ScriptedUpstream(mixed(slow_stream(20, 0.3))) as upstream,
        serving(upstream.base_url, SERVER.format(drain=1.0, grace=60.0)) as served,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        reading = [asyncio.ensure_future(opened.read(session, served.url)) for _ in range(200)]
        await opened.all_begun(200)
        served.kill(signal.SIGTERM)
        await asyncio.sleep(0.3)
        async with session.get(served.url + "/healthz/ready") as ready:
            assert ready.status == 503
            assert (await ready.json())["in_flight"] == 200
        still_taken = await post(served.url, {"model": "m", "messages": chat(1)})
        await asyncio.sleep(1.2)
        turned_away = await post(served.url, {"model": "m", "messages": chat(1)})
        received = await asyncio.gather(*reading)
        status = await served.ended()
    assert still_taken.status == 200
    assert (turned_away.status, turned_away.headers["retry-after"]) == (503, "1")
    assert "shutting down" in turned_away.json()["error"]["message"]
    assert [body.endswith(b"data: [DONE]\n\n") and body.count(EVENT) == 20 for body in received].count(True) == 200
    assert status == 0
    assert served.errors == ""


async def test_streams_longer_than_the_grace_time_end_with_an_error_not_silently() -> None:
    opened = Streams()
    async with (
        ScriptedUpstream(sse_reply(EVENT, STALL)) as upstream,
        serving(upstream.base_url, SERVER.format(drain=0.1, grace=0.5)) as served,
        aiohttp.ClientSession() as session,
    ):
        reading = asyncio.ensure_future(opened.read(session, served.url))
        await opened.all_begun(1)
        served.kill(signal.SIGTERM)
        began = time.monotonic()
        assert await served.ended() == 0
        assert time.monotonic() - began < 15
        body = await reading
        [record] = served.records()
    assert b"[DONE]" not in body
    last = msgspec.json.decode(body.strip().rpartition(b"data: ")[2])
    assert "shutting down" in last["error"]["message"]
    assert (record["outcome"], record["error_code"]) == ("overloaded", "overloaded")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_stops_at_once(number: int) -> None:
    opened = Streams()
    async with (
        ScriptedUpstream(sse_reply(EVENT, STALL)) as upstream,
        serving(upstream.base_url, SERVER.format(drain=60.0, grace=60.0)) as served,
        aiohttp.ClientSession() as session,
    ):
        reading = asyncio.ensure_future(opened.read(session, served.url))
        await opened.all_begun(1)
        for _ in range(2):
            served.kill(number)
            await asyncio.sleep(0.3)
        assert await served.ended(20) == 0
        await reading


async def test_an_idle_process_ends_after_its_drain_time() -> None:
    async with ScriptedUpstream() as upstream, serving(upstream.base_url, SERVER.format(drain=0.1, grace=60)) as served:
        served.kill(signal.SIGTERM)
        assert await served.ended(20) == 0


@pytest.fixture
async def valkey() -> AsyncIterator[Valkey]:
    server = Valkey()
    yield server
    server.stop()


COMPACTING = WINDOW + '[compaction]\nmodel = "short"\nmax_summary_tokens = 500\n[redis]\nurl = "redis://{address}/0"\n'
SUMMARY = "The user asked many numbered questions, one after the other, and every one of them was answered in order."


def answering(received: Received) -> list[Step]:
    """A completion whose usage says what a denser tokenizer would; for the summary model a summary. A stream hangs."""
    if streams(received) or not received.body:
        return sse_reply(EVENT, STALL) if received.body else json_reply({"data": []})
    choice = COMPLETION["choices"][0]  # type: ignore[index]
    said = SUMMARY if received.json()["model"] == "short" else "ok"
    usage = {"prompt_tokens": len(received.body) // 4, "completion_tokens": 9, "total_tokens": 9}
    return json_reply(
        {**COMPLETION, "usage": usage, "choices": [{**choice, "message": {"role": "assistant", "content": said}}]}
    )


CONVERSATIONS = {"cleared": (agent_run, 30), "summarized": (chat, 40)}


@pytest.mark.parametrize("conversation", CONVERSATIONS)
async def test_kill_9_loses_nothing_but_the_open_requests(conversation: str, valkey: Valkey) -> None:
    """A process in the place of the killed one sends the same conversation on as the same bytes: with what it has
    learned of the model, and with the summary it has made, from Redis."""
    toml = COMPACTING.format(address=valkey.address)
    form, length = CONVERSATIONS[conversation]
    body = {"model": "m", "messages": form(length)}
    opened, port = Streams(), closed_port()
    async with ScriptedUpstream(answering) as upstream:
        async with serving(upstream.base_url, toml, port=port) as served, aiohttp.ClientSession() as session:
            for n in range(12):  # until the model's factor stands still
                await post(served.url, {"model": "m", "messages": form(length // 2 + n)})
            first = await post(served.url, body)
            open_request = asyncio.ensure_future(opened.read(session, served.url))
            await opened.all_begun(1)
            before = next(r.body for r in reversed(upstream.requests) if _asks(r, "m"))
            served.kill()
            await served.ended()
            lost = await open_request
        asked = len(upstream.requests)
        async with serving(upstream.base_url, toml, port=port) as again:
            second = await post(again.url, body)
        after = next(r.body for r in upstream.requests[asked:] if _asks(r, "m"))
    assert b"[DONE]" not in lost
    assert (first.status, second.status) == (200, 200)
    assert first.headers["x-trimtab-edits"] == second.headers["x-trimtab-edits"]
    assert after == before
    assert conversation == "cleared" or SUMMARY in after.decode()


def _asks(received: Received, model: str) -> bool:
    return received.method == "POST" and not streams(received) and received.json()["model"] == model


async def test_clients_that_send_half_a_request_do_not_hold_the_process() -> None:
    halves = (
        b"",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n",
        b"GET /healthz/live HTTP/1.1\r\nhost: x\r\n\r\n",
    )
    async with ScriptedUpstream() as upstream, serving(upstream.base_url, SERVER.format(drain=0, grace=1)) as served:
        writers = []
        for half in halves:
            _, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(half)
            writers.append(writer)
        await asyncio.sleep(0.3)
        served.kill(signal.SIGTERM)
        assert await served.ended(20) == 0
        for writer in writers:
            writer.close()


async def test_no_file_descriptors_left_is_survived() -> None:
    """120 clients at a process that may open 64 files: those it cannot take wait or are told, and it recovers."""
    limited = ("prlimit", "--nofile=64:64")
    async with (
        ScriptedUpstream([Pause(0.5), *json_reply(COMPLETION)]) as upstream,
        serving(upstream.base_url, SERVER.format(drain=0, grace=5), prefix=limited) as served,
    ):
        results = Counter(await asyncio.gather(*(_status(served) for _ in range(120))))
        await asyncio.sleep(1)
        calm = [await _status(served) for _ in range(5)]
        assert served.process.returncode is None
    assert calm == [200] * 5
    assert set(results) <= {200, 502, 503}, results
    assert results[200] > 0


async def _status(served: Served, **body: Any) -> int | str:
    try:
        return (await asyncio.wait_for(post(served.url, {"model": "m", "messages": chat(1), **body}), 60)).status
    except (OSError, aiohttp.ClientError, TimeoutError) as error:
        return type(error).__name__


async def test_a_full_disk_under_the_log_costs_log_lines_and_nothing_else() -> None:
    with Path("/dev/full").open("wb") as full:  # noqa: ASYNC230
        async with (
            ScriptedUpstream(mixed(slow_stream(5, 0.01))) as upstream,
            serving(upstream.base_url, log=full) as served,
            aiohttp.ClientSession() as session,
        ):
            whole = await post(served.url, {"model": "m", "messages": chat(1)})
            streamed = await Streams().read(session, served.url)
            metrics = await (await session.get(served.url + "/metrics")).text()
            ready = await (await session.get(served.url + "/healthz/ready")).json()
    assert (whole.status, whole.json()) == (200, COMPLETION)
    assert streamed.endswith(b"data: [DONE]\n\n")
    assert 'outcome="passed"' in metrics
    assert ready["in_flight"] == 0
    assert "Traceback" not in served.errors


async def test_a_log_reader_that_went_away_costs_log_lines_and_nothing_else() -> None:
    read, write = os.pipe()
    with os.fdopen(write, "wb") as pipe:
        async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, serving(upstream.base_url, log=pipe) as served:
            os.close(read)
            answers = [await post(served.url, {"model": "m", "messages": chat(1)}) for _ in range(3)]
            assert served.process.returncode is None
    assert [answer.status for answer in answers] == [200, 200, 200]
    assert "Traceback" not in served.errors


FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")


@pytest.mark.skipif(not FAKETIME.exists(), reason="libfaketime is not installed")
@pytest.mark.parametrize("jump", ["+400d", "-400d"])
async def test_a_jump_of_the_clock_changes_nothing(jump: str, tmp_path: Path) -> None:
    """The wall clock jumps while a stream is open; the monotonic one goes on, as on a real machine."""
    clock = tmp_path / "clock"
    clock.write_text("+0")
    env = {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    opened, body = Streams(), {"model": "m", "messages": agent_run(30)}
    async with (
        ScriptedUpstream(mixed(slow_stream(20, 0.1))) as upstream,
        serving(upstream.base_url, WINDOW + "[limits]\ndiscover = false\n", env=env) as served,
        aiohttp.ClientSession() as session,
    ):
        await post(served.url, body)
        stream = asyncio.ensure_future(opened.read(session, served.url))
        await opened.all_begun(1)
        clock.write_text(jump)
        await post(served.url, body)
        streamed = await stream
        year = served.records()[-1]["timestamp"][:4]
        served.kill(signal.SIGTERM)
        assert await served.ended() == 0
    assert int(year) != time.gmtime().tm_year  # the jump was seen
    assert streamed.count(EVENT) == 20
    assert streamed.endswith(b"data: [DONE]\n\n")
    assert upstream.requests[0].body == upstream.requests[2].body


CROWD = "[server]\nmax_in_flight = {requests}\nmax_in_flight_mb = {mb}\n"


@pytest.mark.parametrize(("requests", "mb", "named"), [(50, 512, "max_in_flight)"), (2000, 40, "max_in_flight_mb)")])
async def test_a_crowd_of_large_requests_meets_a_bound_and_a_clear_503(requests: int, mb: int, named: str) -> None:
    """500 clients with 1 MB each: memory stays near what the bound allows, and who is turned away is told when to
    come again, and is answered then."""
    body = msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": "x" * 1_000_000}]})
    free = asyncio.Event()
    async with (
        ScriptedUpstream(lambda _: [Pause(1.5), *json_reply(COMPLETION)]) as upstream,
        serving(upstream.base_url, CROWD.format(requests=requests, mb=mb)) as served,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        before = served.rss_kb()
        watching = asyncio.ensure_future(_most(served, free))
        answers = await asyncio.gather(*(_crowded(session, served, body) for _ in range(500)))
        free.set()
        most = await watching
        later = [(await _crowded(session, served, body))[0] for _ in range(3)]
    statuses = Counter(status for status, _, _ in answers)
    assert set(statuses) == {200, 503}, statuses
    assert statuses[200] >= 30
    assert all(wait == "1" and named in text for status, wait, text in answers if status == 503)
    assert later == [200] * 3
    assert (most - before) / 1024 < 400, f"{most / 1024:.0f} MB, {before / 1024:.0f} MB before, {statuses}"


@pytest.mark.parametrize("messages", [1, 10_000], ids=["one message", "many messages"])
async def test_bodies_beyond_the_memory_limit_get_a_503_and_the_process_lives(messages: int) -> None:
    """20 clients with 10 MB each, three times, within 256 MiB that the system enforces. One long message is refused as
    too long for the model, many short ones are shaped."""
    text = "x" * (10_000_000 // messages)
    turns = [{"role": ("user", "assistant")[i % 2], "content": text} for i in range(messages - 1)]
    body = msgspec.json.encode({"model": "gpt-4o", "messages": [*turns, {"role": "user", "content": text}]})
    with memory_group(256 << 20) as prefix:
        async with (
            ScriptedUpstream(lambda _: [Pause(1.5), *json_reply(COMPLETION)]) as upstream,
            serving(upstream.base_url, "[limits]\ndiscover = false\n", prefix=prefix) as served,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
        ):
            answers = []
            for _ in range(3):
                answers += await asyncio.gather(*(_crowded(session, served, body) for _ in range(20)))
            metrics = await (await session.get(served.url + "/metrics")).text()
            assert served.process.returncode is None
    statuses = Counter(status for status, _, _ in answers)
    assert set(statuses) == {400 if messages == 1 else 200, 503}, statuses
    assert all(wait == "1" and "max_in_flight_mb" in text for status, wait, text in answers if status == 503)
    assert sample(metrics, "trimtab_inflight_bytes_limit") == 32 << 20
    assert sample(metrics, "trimtab_inflight_bytes") == 0
    assert 0 < sample(metrics, "process_resident_memory_bytes") < 256 << 20


async def test_a_refused_body_is_not_held_until_the_next_garbage_collection() -> None:
    body = msgspec.json.encode({"model": "gpt-4o", "messages": [{"role": "user", "content": "x" * 10_000_000}]})
    async with (
        ScriptedUpstream(json_reply(COMPLETION)) as upstream,
        serving(upstream.base_url, "[limits]\ndiscover = false\n") as served,
        aiohttp.ClientSession() as session,
    ):
        sizes = []
        for _ in range(10):
            assert (await _crowded(session, served, body))[0] == 400
            sizes.append(served.rss_kb() // 1024)
    assert max(sizes[2:]) - sizes[1] < 30, sizes


async def _crowded(session: aiohttp.ClientSession, served: Served, body: bytes) -> tuple[int, str | None, str]:
    async with session.post(served.url + "/v1/chat/completions", data=body) as answer:
        return answer.status, answer.headers.get("retry-after"), await answer.text()


async def _most(served: Served, until: asyncio.Event) -> int:
    """The largest resident memory seen until then, KB."""
    most = 0
    while not until.is_set():
        most = max(most, served.rss_kb())
        await asyncio.sleep(0.05)
    return most


async def test_an_upstream_that_is_killed_and_comes_back_needs_no_restart_here() -> None:
    port = closed_port()
    body = {"model": "m", "messages": chat(1)}
    async with ScriptedUpstream(json_reply(COMPLETION), port=port) as upstream, serving(upstream.base_url) as served:
        up = (await post(served.url, body)).status
        await upstream.__aexit__()
        down = await post(served.url, body)
        async with ScriptedUpstream(json_reply(COMPLETION), port=port):
            again = [(await post(served.url, body)).status for _ in range(3)]
    assert up == 200
    assert (down.status, down.json()["error"]["code"]) == (502, "upstream_unreachable")
    assert again == [200] * 3


async def test_a_taken_port_is_one_sentence_and_exit_2() -> None:
    async with ScriptedUpstream() as upstream, serving(upstream.base_url) as served:
        command = [
            sys.executable,
            "-m",
            "trimtab",
            "serve",
            "--upstream",
            upstream.base_url,
            "--port",
            str(served.port),
        ]
        ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2
    assert f"Cannot listen on 127.0.0.1:{served.port}" in ran.stderr
    assert "Traceback" not in ran.stderr
