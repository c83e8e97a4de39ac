"""`trimtab top`: what a terminal shows of a running proxy."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial

import pytest

from tests.cli.commands import command, environment, run
from tests.support.chat import COMPLETION, WINDOW, post, token_counts
from tests.support.conversations import agent_run
from tests.support.running import running
from tests.support.scripted import ScriptedUpstream, closed_port, json_reply

pytestmark = pytest.mark.anyio


async def test_it_shows_requests_totals_and_health() -> None:
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        empty = await asyncio.to_thread(run, "top", proxy.url, "--once")
        answers = [await post(proxy.url, {"model": "[red]m", "messages": agent_run(n)}) for n in (2, 40)]
        done = await asyncio.to_thread(run, "top", proxy.url, "--once", width=160)
    assert "No request yet." in empty.output
    assert done.exit_code == 0
    first, second, upstream_line, *_, header, newest, oldest = done.output.splitlines()
    assert first.startswith("trimtab ")
    assert "2 requests, 0 in flight" in first
    assert second.startswith("tokens ")
    assert upstream_line == "upstream test: answered 200, 0 of 2 calls failed"
    assert header.split()[:2] == ["time", "model"]
    for line, answer in zip((oldest, newest), answers, strict=True):
        sizes = token_counts(answer)
        assert f"{sizes['original']:,} → {sizes['sent']:,} of {sizes['budget']:,}" in line
        assert "[red]m" in line


@pytest.mark.parametrize("url", ["localhost:8080", "/ui", "ftp://127.0.0.1", ""])
def test_an_address_that_is_none_is_refused_as_an_option_is(url: str) -> None:
    done = run("top", url, "--once")
    assert done.exit_code == 2
    assert "must begin with http:// or https://" in done.output


def test_where_no_proxy_answers_it_says_so() -> None:
    done = run("top", f"http://127.0.0.1:{closed_port()}", "--once")
    assert done.exit_code == 1
    assert "No proxy answers at" in done.output


async def test_where_the_pages_are_off_or_need_a_key_it_says_so() -> None:
    async with ScriptedUpstream() as upstream:
        async with running(upstream.base_url, "[ui]\nenabled = false\n") as proxy:
            off = await asyncio.to_thread(run, "top", proxy.url, "--once")
        async with running(upstream.base_url, f'[ui]\nkeys = ["{"ab" * 32}"]\n') as proxy:
            without = await asyncio.to_thread(run, "top", proxy.url, "--once", "--key", "x")
    assert "Not Found" in off.output
    assert "Missing or unknown key" in without.output


async def test_on_a_terminal_it_goes_on_until_ctrl_c() -> None:
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        ours, theirs = os.openpty()
        made = command("top", proxy.url)
        more = {"COLUMNS": "140", "LINES": "30", "TERM": "xterm"}
        # A test run in the background ignores SIGINT, and so would what it starts.
        heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        watching = await asyncio.create_subprocess_exec(
            *made, stdin=theirs, stdout=theirs, env=environment(more), preexec_fn=heeds
        )
        os.close(theirs)
        try:
            assert "No request yet." in await drawn_until(ours, "No request yet.")
            await post(proxy.url, {"model": "a-model", "messages": agent_run(2)})
            assert "passed" in await drawn_until(ours, "a-model")
            watching.send_signal(signal.SIGINT)
            assert await asyncio.wait_for(watching.wait(), 20) == 0
        finally:
            if watching.returncode is None:
                watching.kill()
            os.close(ours)


async def drawn_until(terminal: int, words: str) -> str:
    """What a program has drawn on a terminal, once `words` are in it."""
    drawn = ""
    async with asyncio.timeout(30):
        while words not in drawn:
            drawn += (await asyncio.to_thread(os.read, terminal, 65_536)).decode(errors="replace")
    return drawn
