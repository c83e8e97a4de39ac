"""Streams as upstreams really send them, and as they really fail: the client gets the same bytes, or a clear end."""

from __future__ import annotations

import asyncio
import gzip
import time
import zlib
from collections.abc import Iterator

import aiohttp
import brotli
import msgspec
import pytest
from backports import zstd

from tests.support.chat import COMPLETION, OVERFLOW, WINDOW, post
from tests.support.conversations import agent_run, chat
from tests.support.raw import exchange, opened, request
from tests.support.running import Running, running
from tests.support.scripted import RESET, STALL, Pause, Received, ScriptedUpstream, Step, chunk, json_reply
from tests.support.streams import (
    BEGUN,
    BIG,
    BROKEN,
    END,
    EVENTS,
    FIRST,
    GONE,
    HEAD,
    STREAMS,
    TOKEN,
    USAGE,
    Broken,
    streamed,
)

pytestmark = pytest.mark.anyio

ASKED = {"model": "m", "stream": True, "messages": chat(1)}

SPLITS = {"whole": 0, "byte by byte": 1, "every 7 bytes": 7, "every 4 KB": 4096}


@pytest.mark.parametrize("asks_usage", [False, True], ids=["untouched", "edited"])
@pytest.mark.parametrize("split", SPLITS.values(), ids=SPLITS)
async def test_any_stream_comes_through_byte_for_byte(split: int, asks_usage: bool) -> None:
    """Edited: a usage that only we asked for is taken out; all else is the same, or the rewriting is at fault."""
    streams = {name: body for name, body in STREAMS.items() if split != 1 or len(body) < 100_000}
    toml = '[limits]\ndiscover = false\nask_usage = "auto"\n' if asks_usage else ""
    async with (
        ScriptedUpstream(*(streamed(body, split) for body in streams.values())) as upstream,
        running(upstream.base_url, toml) as proxy,
    ):
        for name, body in streams.items():
            answer = await post(proxy.url, {**ASKED, "model": name})
            expected = body.replace(b"data: " + USAGE + b"\n\n", b"") if asks_usage and b"\r" not in body else body
            if asks_usage:  # each of these is the usage event we asked for, in another spelling
                assert len(answer.body) <= len(body)
                if b"prompt_tokens" in body and name != "as everyone sends it":
                    continue
            assert (answer.status, answer.body) == (200, expected), name
        assert '"level":"error"' not in proxy.log.getvalue()


async def test_what_a_stream_says_of_itself_is_counted_right() -> None:
    async with (
        ScriptedUpstream(
            *(streamed(STREAMS[name], 0) for name in ("an error in a 200", "the words of an error"))
        ) as up,
        running(up.base_url) as proxy,
    ):
        await post(proxy.url, ASKED)
        await post(proxy.url, ASKED)
        lines = [msgspec.json.decode(line) for line in proxy.log.getvalue().splitlines()]
    assert [line["outcome"] for line in lines] == ["upstream_error", "passed"]


PACKED = {
    "gzip": gzip.compress(EVENTS),
    "br": brotli.compress(EVENTS),
    "zstd": zstd.compress(EVENTS),
    "unknown": b"\x28\xb5\x2f\xfd" + EVENTS,
}


@pytest.mark.parametrize(("name", "body"), PACKED.items(), ids=PACKED)
@pytest.mark.parametrize("split", [0, 1])
async def test_a_compressed_stream_keeps_its_bytes_and_says_so(name: str, body: bytes, split: int) -> None:
    steps = streamed(body, split)
    script = [HEAD + b"content-encoding: " + name.encode() + b"\r\n\r\n", *steps[1:]]
    async with ScriptedUpstream(script) as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, {"model": "m", "stream": True, "messages": agent_run(30)})
    assert answer.body == body  # no comment of ours in the middle of it
    assert answer.headers["content-encoding"] == name
    assert upstream.requests[0].header(b"accept-encoding") == b"identity"


# -- where it breaks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
async def test_a_stream_that_fails_ends_in_a_clear_error_and_never_as_if_whole(broken: Broken) -> None:
    impatient = "read_timeout_s = 0.3\n"
    async with ScriptedUpstream(broken.script) as upstream, running(upstream.base_url, impatient) as proxy:
        answer = await post(proxy.url, ASKED)
        lines = [msgspec.json.decode(line) for line in proxy.log.getvalue().splitlines()]
    last = answer.body.strip().rpartition(b"data: ")[2] if broken.status == 200 else answer.body
    assert (answer.status, msgspec.json.decode(last)["error"]["code"]) == (broken.status, broken.code)
    assert broken.kept in answer.body
    assert b"[DONE]" not in answer.body
    assert [(line["outcome"], line["level"]) for line in lines] == [("upstream_error", "warning")]
    assert len(upstream.requests) == 1


LABELS = {
    "text": b"content-type: text/plain; charset=utf-8\r\n",
    "bytes": b"content-type: application/octet-stream\r\n",
    "JSON": b"content-type: application/json\r\n",
    "nothing": b"",
}


@pytest.mark.parametrize("label", LABELS.values(), ids=LABELS)
async def test_a_stream_under_another_label_comes_as_it_is_and_ends_as_clearly(label: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\n" + label + b"transfer-encoding: chunked\r\n\r\n"
    whole = [head, chunk(EVENTS[:1]), chunk(EVENTS[1:]), END]
    broken = [head, FIRST, Pause(0.05), RESET]
    async with ScriptedUpstream(whole, broken) as upstream, running(upstream.base_url) as proxy:
        answers = [await post(proxy.url, ASKED) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 200]
    assert answers[0].body == EVENTS
    head, _, last = answers[1].body.strip().rpartition(b"data: ")
    assert head == b"data: " + TOKEN + b"\n\n"
    assert msgspec.json.decode(last)["error"]["code"] == GONE


async def test_a_compressed_stream_that_breaks_is_not_ended_as_if_whole() -> None:
    packer = zlib.compressobj(wbits=31)
    half = packer.compress(EVENTS) + packer.flush(zlib.Z_SYNC_FLUSH)
    script = [HEAD + b"content-encoding: gzip\r\n\r\n", chunk(half), Pause(0.05), RESET]
    async with ScriptedUpstream(script) as upstream, running(upstream.base_url) as proxy:
        answer = await exchange(proxy.url, request(body=msgspec.json.encode(ASKED), extra=b""))
    assert answer.ended
    assert not answer.raw.endswith(END)


# -- an idle minute ----------------------------------------------------------------------------------------------

IDLE = "[server]\nkeepalive_s = 0.1\n"
SILENT = [BEGUN, Pause(0.45)]


async def test_a_client_that_waits_gets_comments_until_the_first_byte() -> None:
    async with ScriptedUpstream([*SILENT, chunk(EVENTS), END]) as upstream, running(upstream.base_url, IDLE) as proxy:
        answer = await post(proxy.url, ASKED)
    comments, _, rest = answer.body.partition(b"data: ")
    assert comments.replace(b": keep-alive\n\n", b"") == b""
    assert 3 <= comments.count(b"keep-alive") <= 5
    assert b"data: " + rest == EVENTS


async def test_a_silence_between_events_is_filled_and_one_within_an_event_never() -> None:
    half = len(TOKEN) // 2
    between = [BEGUN, FIRST, Pause(0.25), chunk(EVENTS), END]
    within = [BEGUN, chunk(b"data: " + TOKEN[:half]), Pause(0.35), chunk(TOKEN[half:] + b"\n\n"), END]
    async with ScriptedUpstream(between, within) as upstream, running(upstream.base_url, IDLE) as proxy:
        first = await post(proxy.url, ASKED)
        second = await post(proxy.url, ASKED)
    assert first.body.replace(b": keep-alive\n\n", b"") == b"data: " + TOKEN + b"\n\n" + EVENTS
    assert 1 <= first.body.count(b"keep-alive") <= 3
    assert second.body.endswith(b"data: " + TOKEN + b"\n\n")


async def test_no_comment_where_none_may_be() -> None:
    """Not when switched off, not into a compressed stream, not before the upstream has said 200, not into JSON."""
    small = gzip.compress(EVENTS, mtime=0)
    packed = [HEAD + b"content-encoding: gzip\r\n\r\n", Pause(0.3), chunk(small), END]
    slow = [Pause(0.3), *streamed(EVENTS, 0)]
    late_json = [b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n", Pause(0.3), b"{}"]
    async with ScriptedUpstream(packed, slow, late_json) as upstream, running(upstream.base_url, IDLE) as proxy:
        answers = [await post(proxy.url, ASKED) for _ in range(3)]
    off = "[server]\nkeepalive_s = 0\n"
    async with ScriptedUpstream([*SILENT, chunk(EVENTS), END]) as upstream, running(upstream.base_url, off) as proxy:
        answers.append(await post(proxy.url, ASKED))
    assert [answer.body for answer in answers] == [small, EVENTS, b"{}", EVENTS]


async def test_the_upstreams_own_keep_alives_are_enough() -> None:
    pings = [step for _ in range(5) for step in (Pause(0.07), chunk(b": ping\n\n"))]
    async with (
        ScriptedUpstream([BEGUN, *pings, chunk(EVENTS), END]) as upstream,
        running(upstream.base_url, IDLE) as proxy,
    ):
        answer = await post(proxy.url, ASKED)
    assert answer.body.replace(b": keep-alive\n\n", b"") == b": ping\n\n" * 5 + EVENTS


async def test_a_byte_order_mark_behind_our_comment_does_not_spoil_the_first_event() -> None:
    script = [BEGUN, Pause(0.25), chunk(b"\xef\xbb\xbf" + EVENTS), END]
    async with ScriptedUpstream(script) as upstream, running(upstream.base_url, IDLE) as proxy:
        answer = await post(proxy.url, ASKED)
    assert answer.body.replace(b": keep-alive\n\n", b"") == EVENTS


# -- too long, said late -----------------------------------------------------------------------------------------

TOO_LONG = b"data: " + msgspec.json.encode(OVERFLOW) + b"\n\n"
LONG = {"model": "m", "stream": True, "messages": agent_run(12)}
DONE = b"data: [DONE]\n\n"
NOTED = b": OPENROUTER PROCESSING\n\n"

MENDED = {
    "as the first event": [BEGUN, chunk(TOO_LONG + DONE), END],
    "byte by byte": streamed(TOO_LONG + DONE, 1),
    "named": [BEGUN, chunk(b"event: error\n" + TOO_LONG), END],
    "after comments": [BEGUN, chunk(NOTED), Pause(0.02), chunk(NOTED), Pause(0.02), chunk(TOO_LONG), END],
    "after keep-alive comments": [BEGUN, Pause(0.25), chunk(TOO_LONG), END],
    "without a blank line": [BEGUN, chunk(TOO_LONG.strip()), END],
    "compressed": [HEAD + b"content-encoding: gzip\r\n\r\n", chunk(gzip.compress(TOO_LONG)), END],
}


@pytest.mark.parametrize("script", MENDED.values(), ids=MENDED)
async def test_an_overflow_before_the_first_token_is_mended_unseen(script: list[Step]) -> None:
    async with (
        ScriptedUpstream(script, streamed(EVENTS, 0)) as upstream,
        running(upstream.base_url, IDLE + WINDOW) as proxy,
    ):
        answer = await post(proxy.url, LONG)
        line = msgspec.json.decode(proxy.log.getvalue())
    comments, _, rest = answer.body.partition(b"data: ")
    assert (answer.status, b"data: " + rest) == (200, EVENTS)
    assert not [c for c in comments.split(b"\n\n") if not c.startswith((b": ", b""))]
    first, second = (len(r.body) for r in upstream.requests)
    assert second < first * 0.8
    assert (line["outcome"], line["overflow"]) == ("shaped", True)


ROLE = b'data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n'


@pytest.mark.parametrize("together", [True, False], ids=["with what came before", "on its own"])
@pytest.mark.parametrize("asks_usage", [False, True], ids=["untouched", "edited"])
async def test_an_overflow_after_the_first_token_is_our_clear_error_as_the_last_event(
    together: bool, asks_usage: bool
) -> None:
    rest = [chunk(ROLE + TOO_LONG + DONE)] if together else [chunk(TOO_LONG), chunk(DONE)]
    script = [BEGUN, chunk(ROLE), Pause(0.05), *rest, END]
    toml = WINDOW + ('[limits]\ndiscover = false\nask_usage = "auto"\n' if asks_usage else "")
    async with ScriptedUpstream(script, streamed(EVENTS, 0)) as upstream, running(upstream.base_url, toml) as proxy:
        answer = await post(proxy.url, LONG)
        again = await post(proxy.url, LONG)
        line = msgspec.json.decode(proxy.log.getvalue().splitlines()[0])
    *before, last, nothing = answer.body.split(b"\n\n")
    error = msgspec.json.decode(last.removeprefix(b"data: "))["error"]
    assert (error["code"], error["param"], error["type"]) == (
        "context_length_exceeded",
        "messages",
        "invalid_request_error",
    )
    assert [event + b"\n\n" for event in before] == [ROLE] * (1 + together)
    assert nothing == b""
    assert b"[DONE]" not in answer.body
    assert (line["outcome"], line["overflow"], line["level"]) == ("refused", True, "info")
    assert again.status == 200
    assert len(upstream.requests[1].body) < len(upstream.requests[0].body) * 0.8  # it was learned from


@pytest.mark.parametrize("asked", [1, "true", None])
async def test_a_stream_asked_for_in_words_not_read_here_ends_as_clearly(asked: object) -> None:
    script = [BEGUN, chunk(ROLE), Pause(0.05), chunk(TOO_LONG), END]
    async with ScriptedUpstream(script) as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, {**LONG, "stream": asked})
    last = msgspec.json.decode(answer.body.strip().rpartition(b"data: ")[2])
    assert last["error"]["code"] == "context_length_exceeded"


async def test_an_overflow_already_half_relayed_passes_as_the_upstream_wrote_it() -> None:
    script = [BEGUN, chunk(ROLE + TOO_LONG[:40]), Pause(0.05), chunk(TOO_LONG[40:] + DONE), END]
    async with ScriptedUpstream(script) as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, LONG)
    assert answer.body == ROLE + TOO_LONG + DONE


async def test_where_nothing_is_managed_nothing_is_replaced() -> None:
    script = [BEGUN, chunk(ROLE), Pause(0.05), chunk(TOO_LONG + DONE), END]
    async with ScriptedUpstream(script) as upstream, running(upstream.base_url, WINDOW) as proxy:
        bypassed = await post(proxy.url, LONG, x_trimtab_bypass="true")
        observed = await post(proxy.url, LONG, x_trimtab_observe="true")
    assert bypassed.body == observed.body.partition(b"\n\n")[2] or bypassed.body == observed.body
    assert bypassed.body == ROLE + TOO_LONG + DONE


async def test_a_shortened_try_that_is_no_stream_still_ends_the_stream_clearly() -> None:
    silent = [BEGUN, Pause(0.25), chunk(TOO_LONG), END]
    async with (
        ScriptedUpstream(silent, json_reply({"error": {"message": "no"}}, 400)) as upstream,
        running(upstream.base_url, IDLE + WINDOW) as proxy,
    ):
        answer = await post(proxy.url, LONG)
    last = msgspec.json.decode(answer.body.strip().rpartition(b"data: ")[2])
    assert last["error"]["type"] == "upstream_error"


# -- clients -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script",
    [[STALL], [BEGUN, STALL], [BEGUN, FIRST, STALL], [BEGUN, *[FIRST, Pause(0.01)] * 500]],
    ids=["before the headers", "after them", "after the first event", "in full flow"],
)
@pytest.mark.parametrize("how", ["FIN", "RST"])
async def test_a_client_that_leaves_takes_its_upstream_call_with_it(script: list[Step], how: str) -> None:
    async with ScriptedUpstream(script) as upstream, running(upstream.base_url, IDLE) as proxy:
        _, writer = await opened(proxy.url)
        writer.write(request(body=msgspec.json.encode(ASKED)))
        await writer.drain()
        await asyncio.sleep(0.25)
        began = time.monotonic()
        if how == "RST":
            writer.transport.abort()
        writer.close()
        await asyncio.wait_for(upstream.left.wait(), 2)
        assert time.monotonic() - began < 1
        await asyncio.sleep(0.05)
        assert msgspec.json.decode(proxy.log.getvalue())["outcome"] == "abandoned"
        assert proxy.parts.load.requests == 0
        assert proxy.parts.load.bytes == 0


async def test_a_slow_reader_slows_the_upstream_down_instead_of_filling_memory() -> None:
    """64 MB for a client that reads nothing: what the upstream got rid of is what all the buffers between hold."""
    written = 0

    class Flood:
        def __iter__(self) -> Iterator[Step]:
            nonlocal written
            yield BEGUN
            for _ in range(64):
                written += len(BIG)
                yield chunk(BIG)
            yield END

    async with ScriptedUpstream(Flood()) as upstream, running(upstream.base_url) as proxy:  # type: ignore[arg-type]
        reader, writer = await opened(proxy.url)
        writer.write(request(body=msgspec.json.encode(ASKED), extra=b""))
        await writer.drain()
        await asyncio.sleep(1)
        stuck = written
        got = 0
        while got < 64 * len(BIG):
            got += len(await reader.read(1 << 20))
        writer.close()
    assert stuck < 32 << 20
    assert got >= 64 * len(BIG)


async def test_two_hundred_streams_at_once_each_get_their_own() -> None:
    def own(received: Received) -> list[Step]:
        model = received.json()["model"].encode()
        pieces = [chunk(b'data: {"id":"' + model + b'","n":%d}\n\n' % n) for n in range(20)]
        return [BEGUN, *(step for piece in pieces for step in (piece, Pause(0.001))), END]

    async def one(proxy: Running, session: aiohttp.ClientSession, n: int) -> None:
        async with session.post(proxy.base_url + "/chat/completions", json={**ASKED, "model": f"m{n}"}) as answer:
            body = await answer.read()
        assert body.count(b'"id":"m%d"' % n) == body.count(b"data: ") == 20

    connector = aiohttp.TCPConnector(limit=0)
    async with (
        ScriptedUpstream(own) as upstream,
        running(upstream.base_url) as proxy,
        aiohttp.ClientSession(connector=connector) as session,
    ):
        await asyncio.gather(*(one(proxy, session, n) for n in range(200)))
        assert proxy.parts.load.requests == 0


async def test_the_next_request_after_any_fault_is_served() -> None:
    faults: list[list[Step]] = [broken.script for broken in BROKEN.values()]
    scripts: list[list[Step]] = [step for fault in faults for step in (fault, json_reply(COMPLETION))]
    async with ScriptedUpstream(*scripts) as upstream, running(upstream.base_url, "read_timeout_s = 0.2\n") as proxy:
        for _ in faults:
            await post(proxy.url, ASKED)
            assert (await post(proxy.url, {"model": "m", "messages": chat(1)})).status == 200
