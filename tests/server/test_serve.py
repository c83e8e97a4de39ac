"""`trimtab serve` as a process: what it writes when it starts, when it cannot, and how it stops."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from pathlib import Path

import aiohttp
import pytest

from tests.cli.commands import shell
from tests.support.chat import COMPLETION, post
from tests.support.conversations import chat
from tests.support.running import sample
from tests.support.scripted import STALL, Pause, ScriptedUpstream, closed_port, json_reply, sse_reply
from tests.support.served import Served, serving
from trimtab.errors import ConfigError
from trimtab.server.serve import address, claim, serve
from trimtab.settings import parse

pytestmark = pytest.mark.anyio

BODY = {"model": "m", "messages": chat(0)}
QUICK = '[limits]\ndiscover = false\nask_usage = "never"\n[server]\ndrain_s = {}\ngrace_s = {}\n'


async def status(served: Served, path: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(served.url + path) as answer:
        return answer.status


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:80"), ("localhost", "http://localhost:80"), ("::1", "http://[::1]:80")],
)
def test_the_url_of_an_address_is_valid(host: str, url: str) -> None:
    assert address(host, 80) == url


# -- what keeps it from starting ---------------------------------------------------------------------------------


def test_a_port_in_use_is_one_sentence() -> None:
    with socket.socket() as owner:
        owner.bind(("127.0.0.1", 0))
        owner.listen()
        port = str(owner.getsockname()[1])
        done = shell("serve", "--upstream", "http://127.0.0.1:9/v1", "--port", port)
    assert done.returncode == 2
    assert f"127.0.0.1:{port}" in done.stderr
    assert "--port" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_keys_are_not_lent_to_the_network(tmp_path: Path) -> None:
    config = tmp_path / "trimtab.toml"
    config.write_text('[[upstreams]]\nname = "a"\nbase_url = "http://127.0.0.1:9/v1"\napi_key = "${KEY}"\n')
    done = shell("serve", "--config", str(config), "--host", "0.0.0.0", "--port", "0", KEY="sk-secret")
    assert done.returncode == 2
    assert "client_keys" in done.stderr
    assert "sk-secret" not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("toml", "written"),
    [
        ("[sever]\n", "Nearest: server"),
        ("[compaction]\nprompts = 5\n", ":2: [compaction] prompts must be text"),
        ("[server]\nport = '${NOT_SET}'\n", "NOT_SET"),
    ],
)
def test_a_wrong_configuration_is_one_sentence_with_its_file_and_place(tmp_path: Path, toml: str, written: str) -> None:
    config = tmp_path / "trimtab.toml"
    config.write_text(toml)
    done = shell("serve", "--config", str(config))
    assert done.returncode == 2
    assert written in done.stderr
    assert str(config) in done.stderr
    assert "Traceback" not in done.stderr


# -- connections and listeners -----------------------------------------------------------------------------------


async def test_a_connection_without_a_request_is_kept_for_the_idle_timeout() -> None:
    ask = b"GET /healthz/live HTTP/1.1\r\nhost: x\r\n\r\n"
    async with ScriptedUpstream() as upstream, serving(upstream.base_url, "[server]\nidle_timeout_s = 2.0\n") as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        for _ in range(2):
            writer.write(ask)
            assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
            await asyncio.sleep(1)
        began = asyncio.get_running_loop().time()
        assert await reader.read() == b""
        waited = asyncio.get_running_loop().time() - began
        writer.close()
    assert 0.5 < waited < 1.5


async def test_metrics_can_have_a_listener_of_their_own() -> None:
    port = closed_port()
    toml = f'[server]\nmetrics_host = "127.0.0.1"\nmetrics_port = {port}\n'
    async with (
        ScriptedUpstream(json_reply(COMPLETION)) as upstream,
        serving(upstream.base_url, toml) as served,
        aiohttp.ClientSession() as session,
    ):
        assert (await post(served.url, BODY)).status == 200
        assert await status(served, "/metrics") == 404
        own = f"http://127.0.0.1:{port}"
        metrics = await (await session.get(own + "/metrics")).text()
        paths = {path: (await session.get(own + path)).status for path in ("/healthz/ready", "/v1/models")}
        served.kill(signal.SIGTERM)
        assert await served.ended(20) == 0
    assert sample(metrics, 'trimtab_upstream_responses_total{code="2xx",upstream="test"}') >= 1
    assert paths == {"/healthz/ready": 200, "/v1/models": 404}


def test_a_port_for_metrics_that_is_taken_is_refused() -> None:
    with socket.socket() as owner:
        owner.bind(("127.0.0.1", 0))
        owner.listen()
        port = owner.getsockname()[1]
        settings = parse(
            f"[[upstreams]]\nname='a'\nbase_url='http://a/v1'\n[server]\nport=0\nmetrics_port={port}\n", {}
        )
        with pytest.raises(ConfigError, match=f"Cannot listen on 127.0.0.1:{port}"):
            serve(settings)


async def test_several_processes_can_share_a_port() -> None:
    """New connections are spread over them, and one that goes takes no other along."""
    ports = [closed_port(), closed_port()]
    toml = "[limits]\ndiscover = false\n[server]\nshare_port = true\n"
    async with contextlib.AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(ScriptedUpstream(json_reply(COMPLETION)))
        first = await stack.enter_async_context(serving(upstream.base_url, f"{toml}metrics_port = {ports[0]}\n"))
        second = await stack.enter_async_context(
            serving(upstream.base_url, f"{toml}metrics_port = {ports[1]}\n", port=first.port)
        )
        await until_it_listens(ports[1])  # on their shared port the first may have answered
        sent, answered = 0, [0.0, 0.0]
        while not all(answered) and sent < 400:  # the second may not listen there yet
            assert (await post(first.url, BODY)).status == 200
            sent, answered = sent + 1, [await _answered(port) for port in ports]
        assert min(answered) > 0
        assert sum(answered) == sent
        second.kill(signal.SIGTERM)
        assert await second.ended(20) == 0
        assert (await post(first.url, BODY)).status == 200


async def until_it_listens(port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            return writer.close()
        await asyncio.sleep(0.05)
    raise TimeoutError(f"nothing listens on {port}")


async def _answered(port: int) -> float:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
        return sample(await answer.text(), 'trimtab_upstream_responses_total{code="2xx",upstream="test"}')


def test_a_shared_port_needs_metrics_elsewhere() -> None:
    settings = parse("[[upstreams]]\nname='a'\nbase_url='http://a/v1'\n[server]\nport=0\nshare_port=true\n", {})
    with pytest.raises(ConfigError, match="--metrics-port"):
        serve(settings)
    assert not settings.serves_ui


# -- how it stops ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_idle_it_stops_at_once_and_well(number: int) -> None:
    async with ScriptedUpstream() as upstream, serving(upstream.base_url, QUICK.format(0, 30)) as served:
        served.kill(number)
        assert await served.ended(10) == 0
        assert served.errors.count("\n") <= 1


async def test_a_connection_that_is_kept_open_holds_nothing_up() -> None:
    async with (
        ScriptedUpstream(json_reply(COMPLETION)) as upstream,
        serving(upstream.base_url, QUICK.format(0, 30)) as served,
        aiohttp.ClientSession() as session,
    ):
        async with session.post(served.base_url + "/chat/completions", json=BODY) as answer:
            await answer.read()
        served.kill(signal.SIGTERM)
        assert await served.ended(10) == 0


async def test_an_open_stream_is_finished_while_new_requests_are_turned_away() -> None:
    event = b'{"id":"c","choices":[{"index":0,"delta":{"content":"a"}}]}'
    slow = sse_reply(event, Pause(2.0), event, Pause(0.5), event)
    toml = QUICK.format(0.6, 30)
    async with ScriptedUpstream(slow, json_reply(COMPLETION)) as upstream, serving(upstream.base_url, toml) as served:
        open_stream = asyncio.ensure_future(post(served.url, {**BODY, "stream": True}))
        while not upstream.requests:  # noqa: ASYNC110  the upstream is a list of what came
            await asyncio.sleep(0.01)
        served.kill(signal.SIGTERM)
        await asyncio.sleep(0.2)
        leaving, taken = await status(served, "/healthz/ready"), await post(served.url, BODY)
        await asyncio.sleep(0.8)
        turned_away = await post(served.url, BODY)
        finished = await open_stream
        assert await served.ended(20) == 0
        outcomes = sorted(line["outcome"] for line in served.records())
    assert (leaving, taken.status, turned_away.status) == (503, 200, 503)
    assert "shutting down" in turned_away.json()["error"]["message"]
    assert finished.body == b"data: " + event + b"\n\n" + (b"data: " + event + b"\n\n") * 2 + b"data: [DONE]\n\n"
    assert outcomes == ["overloaded", "passed", "passed"]


async def test_a_stream_that_does_not_end_ends_in_an_error_after_the_grace_time() -> None:
    toml = QUICK.format(0, 0.5)
    async with ScriptedUpstream(sse_reply(b"{}", STALL)) as upstream, serving(upstream.base_url, toml) as served:
        hanging = asyncio.ensure_future(post(served.url, {**BODY, "stream": True}))
        while not upstream.requests:  # noqa: ASYNC110  the upstream is a list of what came
            await asyncio.sleep(0.01)
        served.kill(signal.SIGTERM)
        assert await served.ended(20) == 0
        await asyncio.wait_for(upstream.left.wait(), 5)
        answer = await asyncio.wait_for(hanging, 5)
    assert b"[DONE]" not in answer.body
    assert b"shutting down" in answer.body.rpartition(b"data: ")[2]


async def test_a_second_signal_does_not_wait() -> None:
    toml = QUICK.format(60, 60)
    async with ScriptedUpstream(sse_reply(b"{}", STALL)) as upstream, serving(upstream.base_url, toml) as served:
        hanging = asyncio.ensure_future(post(served.url, {**BODY, "stream": True}))
        while not upstream.requests:  # noqa: ASYNC110  the upstream is a list of what came
            await asyncio.sleep(0.01)
        for _ in range(2):
            served.kill(signal.SIGTERM)
            await asyncio.sleep(0.3)
        assert await served.ended(20) == 0
        hanging.cancel()


# -- the address to listen on ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shares", [False, True])
def test_a_port_that_is_taken_is_refused_also_when_its_owner_would_share_it(shares: bool) -> None:
    with socket.socket() as owner:
        owner.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(shares))
        owner.bind(("127.0.0.1", 0))
        owner.listen()
        port = owner.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port} .*--port"):
            claim("127.0.0.1", port)
    assert claim("127.0.0.1", port) == port


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "localhost"])
def test_port_zero_is_a_free_port(host: str) -> None:
    assert claim(host, 0) > 0


@pytest.mark.parametrize("host", ["203.0.113.9", "no.such.host.invalid"])
def test_an_address_that_is_not_ours_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="Cannot listen"):
        claim(host, 8080)
