"""What an upstream sends while its client waits comes through as it comes: heads, comments, blank bytes, lines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.support.chat import COMPLETION, OVERFLOW, WINDOW, post
from tests.support.conversations import agent_run, chat
from tests.support.running import running
from tests.support.scripted import RESET, STALL, Pause, ScriptedUpstream, Step, chunk, json_reply
from tests.support.streams import BEGUN, END, EVENTS

pytestmark = pytest.mark.anyio

JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
LINES = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
ANSWER = msgspec.json.encode(COMPLETION)
ONE, LONG = {"model": "m", "messages": chat(1)}, {"model": "m", "messages": agent_run(12)}
STREAMED = {**ONE, "stream": True}
BLANKS: list[Step] = [step for _ in range(3) for step in (chunk(b"\n"), Pause(0.05))]


@asynccontextmanager
async def answered(script: list[Step], asked: Any, toml: str = "") -> AsyncIterator[aiohttp.ClientResponse]:
    """The answer as soon as its head is here."""
    async with (
        ScriptedUpstream(script) as upstream,
        running(upstream.base_url, toml) as proxy,
        aiohttp.ClientSession() as session,
        session.post(f"{proxy.url}/v1/chat/completions", json=asked) as answer,
    ):
        yield answer


async def first(answer: aiohttp.ClientResponse) -> bytes:
    return await asyncio.wait_for(answer.content.readany(), 2)


async def test_blank_bytes_before_an_answer_in_one_piece_come_at_once() -> None:
    async with answered([JSON, chunk(b"\n"), Pause(0.2), chunk(b"  "), STALL], ONE) as answer:
        assert (answer.status, answer.content_type) == (200, "application/json")
        assert await first(answer) == b"\n"
        assert await first(answer) == b"  "


async def test_what_follows_them_is_the_answer_and_is_read() -> None:
    async with (
        ScriptedUpstream([JSON, *BLANKS, chunk(ANSWER[:9]), Pause(0.02), chunk(ANSWER[9:]), END]) as upstream,
        running(upstream.base_url, WINDOW) as proxy,
    ):
        plain = await post(proxy.url, ONE)
        explained = await post(proxy.url, ONE, x_trimtab_explain="true")
        line = msgspec.json.decode(proxy.log.getvalue().splitlines()[0])
    assert plain.body == b"\n\n\n" + ANSWER
    assert plain.json() == COMPLETION
    assert explained.json()["trimtab"]["edits"] == {}
    assert line["prompt_tokens"] == COMPLETION["usage"]["prompt_tokens"]


async def test_an_overflow_behind_blank_bytes_is_mended_unseen() -> None:
    late = [JSON, *BLANKS, chunk(msgspec.json.encode(OVERFLOW)), END]
    async with (
        ScriptedUpstream(late, json_reply(COMPLETION)) as upstream,
        running(upstream.base_url, WINDOW) as proxy,
    ):
        answer = await post(proxy.url, LONG)
    assert (answer.status, answer.json()) == (200, COMPLETION)
    assert len(upstream.requests[1].body) < len(upstream.requests[0].body) * 0.8


FAILED: dict[str, tuple[list[list[Step]], str]] = {
    "too long twice": ([[JSON, *BLANKS, chunk(msgspec.json.encode(OVERFLOW)), END]], "context_length_exceeded"),
    "then an error": (
        [[JSON, *BLANKS, chunk(msgspec.json.encode(OVERFLOW)), END], json_reply({"error": {"code": "no"}}, 400)],
        "no",
    ),
    "it breaks off": ([[JSON, *BLANKS, RESET]], "upstream_unreachable"),
}


@pytest.mark.parametrize(("scripts", "code"), FAILED.values(), ids=FAILED)
async def test_an_error_behind_blank_bytes_is_the_body(scripts: list[list[Step]], code: str) -> None:
    async with ScriptedUpstream(*scripts) as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, LONG)
    assert (answer.status, answer.json()["error"]["code"]) == (200, code)


async def test_events_behind_blank_bytes_pass_as_they_are() -> None:
    async with ScriptedUpstream([JSON, *BLANKS, chunk(EVENTS), END]) as up, running(up.base_url, WINDOW) as proxy:
        assert (await post(proxy.url, STREAMED)).body == b"\n\n\n" + EVENTS


@pytest.mark.parametrize("head", [LINES, JSON], ids=["labelled", "as JSON"])
async def test_lines_come_one_by_one(head: bytes) -> None:
    line = b'{"message":{"content":"a"},"done":false}\n'
    async with answered([head, chunk(line), Pause(0.3), chunk(line), STALL], STREAMED) as answer:
        assert await first(answer) == line
        assert await first(answer) == line


async def test_an_answer_that_ends_with_a_newline_is_read_as_any_other() -> None:
    overflow = [JSON, chunk(msgspec.json.encode(OVERFLOW) + b"\n"), END]
    async with (
        ScriptedUpstream(overflow, json_reply(COMPLETION)) as upstream,
        running(upstream.base_url, WINDOW) as proxy,
    ):
        assert (await post(proxy.url, LONG)).json() == COMPLETION


async def test_the_head_of_a_stream_is_not_held_back() -> None:
    began = time.monotonic()
    async with answered([BEGUN, STALL], STREAMED) as answer:
        assert answer.status == 200
        assert time.monotonic() - began < 2


async def test_comments_come_at_once() -> None:
    script = [BEGUN, chunk(b": PROCESSING\n\n"), Pause(0.2), chunk(b": PROCESSING\n\n"), STALL]
    async with answered(script, STREAMED) as answer:
        assert await first(answer) == b": PROCESSING\n\n"
        assert await first(answer) == b": PROCESSING\n\n"


SHAPED = {"model": "m", "messages": agent_run(30)}
QUICK = WINDOW + "[server]\nkeepalive_s = 0.1\n"


@pytest.mark.parametrize("pause", [0.0, 0.8], ids=["at once", "late"])
async def test_nothing_of_ours_goes_into_json_under_the_label_of_a_stream(pause: float) -> None:
    script = [BEGUN, Pause(pause), chunk(ANSWER[:20]), Pause(0.3), chunk(ANSWER[20:]), END]
    async with ScriptedUpstream(script) as upstream, running(upstream.base_url, QUICK) as proxy:
        answer = await post(proxy.url, SHAPED)
    assert len(upstream.requests[0].body) < len(msgspec.json.encode(SHAPED))
    assert answer.body == ANSWER
    assert "cleared=0" not in answer.headers["x-trimtab-edits"]
