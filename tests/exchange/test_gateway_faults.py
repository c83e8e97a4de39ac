"""From a real fault to what an operator sees: the scraped series and the log line of each."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.support.chat import COMPLETION, OVERFLOW, WINDOW, post, token_counts
from tests.support.conversations import agent_run, chat, prose
from tests.support.running import Running, running, sample
from tests.support.scripted import (
    CLOSE,
    STALL,
    Pause,
    Received,
    Script,
    ScriptedUpstream,
    Step,
    closed_port,
    json_reply,
    sse_reply,
)
from tests.support.summaries import SUMMARIES, SUMMARY_TEXT, writing_as_writer
from tests.support.valkey import Valkey
from tests.support.waiting import eventually
from trimtab.context.estimate.tokens import text_tokens
from trimtab.context.texts import NOTE
from trimtab.settings import parse

pytestmark = pytest.mark.anyio

# The sizes below are told in round numbers.
NO_EXTRACT = SUMMARIES + "[shaping]\nextract_share = 0.0\n"

EVENT = b'{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Half"}}]}'
QUESTION: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Is anybody there?"}]}
CODES = ("2xx", "3xx", "4xx", "401", "403", "429", "5xx", "none", "cancelled", "broken_off")


def toml(base_url: str, more: str = "") -> str:
    return (
        f'[[upstreams]]\nname = "up"\nbase_url = "{base_url}"\nretries = 1\nread_timeout_s = 0.3\n'
        f'[limits]\ndiscover = false\nask_usage = "never"\n{more}'
    )


def lines(proxy: Running, event: str = "exchange") -> list[dict[str, Any]]:
    found = [msgspec.json.decode(line) for line in proxy.log.getvalue().splitlines()]
    return [line for line in found if line["event"] == event]


def responses(metrics: str, upstream: str = "up") -> dict[str, float]:
    """The calls of an upstream by code, without those that are 0."""
    name = "trimtab_upstream_responses_total"
    counts = {code: sample(metrics, f'{name}{{code="{code}",upstream="{upstream}"}}') for code in CODES}
    return {code: count for code, count in counts.items() if count}


async def test_every_code_of_every_upstream_is_there_before_the_first_call() -> None:
    async with running(parse(toml("http://127.0.0.1:9/v1"), {})) as proxy:
        assert responses(await proxy.metrics()) == {}
        assert sample(await proxy.metrics(), 'trimtab_retries_total{upstream="up"}') == 0
        assert sample(await proxy.metrics(), 'trimtab_overflow_total{upstream="up"}') == 0
        for part in ("plan", "apply"):
            assert sample(await proxy.metrics(), f'trimtab_fail_open_total{{part="{part}"}}') == 0


@pytest.mark.parametrize("base_url", ["http://127.0.0.1:{port}/v1", "http://no-such-host.invalid/v1"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings"])
async def test_an_upstream_that_cannot_be_reached_is_counted_and_so_are_its_retries(base_url: str, path: str) -> None:
    async with running(parse(toml(base_url.format(port=closed_port())), {})) as proxy:
        answer = await post(proxy.url, QUESTION, path)
        metrics = await proxy.metrics()
        (line,) = lines(proxy)
    assert answer.status == 502
    assert responses(metrics) == {"none": 1}
    assert sample(metrics, 'trimtab_retries_total{upstream="up"}') == 1
    assert (line["retries"], line["error_code"], line["level"]) == (1, "upstream_unreachable", "warning")


@pytest.mark.parametrize(
    ("end", "status", "code"), [(STALL, 504, "upstream_timeout"), (CLOSE, 502, "upstream_unreachable")]
)
async def test_an_upstream_that_does_not_answer_is_counted(end: Step, status: int, code: str) -> None:
    async with ScriptedUpstream([end]) as upstream, running(parse(toml(upstream.base_url), {})) as proxy:
        answer = await post(proxy.url, QUESTION)
        metrics = await proxy.metrics()
        (line,) = lines(proxy)
    assert (answer.status, responses(metrics), line["error_code"]) == (status, {"none": 1}, code)


@pytest.mark.parametrize("status", [401, 403, 429])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings"])
async def test_a_denied_key_and_a_rate_limit_have_a_code_and_the_upstreams_own_word(status: int, path: str) -> None:
    script = json_reply({"error": {"message": "no", "type": "x", "code": "its_own_code"}}, status)
    async with ScriptedUpstream(script) as upstream, running(parse(toml(upstream.base_url), {})) as proxy:
        answer = await post(proxy.url, QUESTION, path)
        metrics = await proxy.metrics()
        (line,) = lines(proxy)
    assert (answer.status, responses(metrics)) == (status, {str(status): 1})
    assert (line["outcome"], line["error_code"]) == ("upstream_rejected", "its_own_code")


@pytest.mark.parametrize("message", ["tungsten filament", "tungsten"])
async def test_what_an_upstream_says_to_people_is_not_logged(message: str) -> None:
    script = json_reply({"error": {"message": message, "code": "tungsten is a metal"}}, 400)
    async with ScriptedUpstream(script) as upstream, running(upstream.base_url) as proxy:
        await post(proxy.url, QUESTION)
        assert "tungsten" not in proxy.log.getvalue()


BROKEN: list[tuple[str, Script]] = [
    ("a stream", sse_reply(EVENT, CLOSE)),
    ("a silent stream", sse_reply(EVENT, STALL)),
    ("an answer", [json_reply(COMPLETION)[0], b'{"id":', CLOSE]),
]


@pytest.mark.parametrize(("_", "script"), BROKEN, ids=[row[0] for row in BROKEN])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_an_answer_that_breaks_off_is_counted_as_such(_: str, script: Script, path: str) -> None:
    async with ScriptedUpstream(script) as upstream, running(parse(toml(upstream.base_url), {})) as proxy:
        with contextlib.suppress(aiohttp.ClientError):
            await post(proxy.url, {**QUESTION, "stream": True}, path)
        metrics = await proxy.metrics()
        (line,) = lines(proxy)
    assert responses(metrics) == {"broken_off": 1}
    assert (line["outcome"], line["upstream_status"]) == ("upstream_error", 200)


async def test_an_error_in_a_stream_gives_its_code() -> None:
    script = sse_reply(EVENT, b'{"error":{"message":"x","type":"server_error","code":"engine_overloaded"}}')
    async with ScriptedUpstream(script) as upstream, running(parse(toml(upstream.base_url), {})) as proxy:
        await post(proxy.url, {**QUESTION, "stream": True})
        (line,) = lines(proxy)
    assert (line["outcome"], line["error_code"]) == ("upstream_error", "engine_overloaded")


async def test_a_client_that_leaves_is_no_fault_of_the_upstream() -> None:
    slow = toml("{}").replace("read_timeout_s = 0.3\n", "")
    async with ScriptedUpstream([STALL]) as upstream, running(parse(slow.format(upstream.base_url), {})) as proxy:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.3):
                await post(proxy.url, QUESTION)
        await eventually(lambda: bool(lines(proxy)))
        assert responses(await proxy.metrics()) == {"cancelled": 1}
        assert (lines(proxy)[0]["outcome"], lines(proxy)[0]["level"]) == ("abandoned", "info")


async def test_both_calls_of_an_overflow_are_counted() -> None:
    scripts = (json_reply(OVERFLOW, 400), json_reply(COMPLETION))
    async with ScriptedUpstream(*scripts) as upstream, running(parse(toml(upstream.base_url, WINDOW), {})) as proxy:
        await post(proxy.url, {"model": "m", "messages": agent_run(12)})
        assert responses(await proxy.metrics()) == {"2xx": 1, "4xx": 1}


# -- the summary model -------------------------------------------------------------------------------------------

WRITER = '[[upstreams]]\nname = "writer"\nbase_url = "{}"\nmodels = ["writer"]\nretries = 0\n'


@pytest.mark.parametrize(
    ("failing", "code", "reason"),
    [
        (json_reply({"error": {"type": "server_error"}}, 500), "5xx", "500 server_error"),
        (json_reply({"error": {"code": "invalid_api_key"}}, 401), "401", "401 invalid_api_key"),
        (None, "none", "upstream_unreachable"),
    ],
)
async def test_a_call_of_the_summary_model_is_counted_with_its_upstream_and_gives_its_cause(
    failing: Script | None, code: str, reason: str
) -> None:
    async with ScriptedUpstream(failing or [CLOSE]) as writer, ScriptedUpstream(json_reply(COMPLETION)) as upstream:
        base_url = writer.base_url if failing else f"http://127.0.0.1:{closed_port()}/v1"
        made = parse(WRITER.format(base_url) + toml(upstream.base_url, SUMMARIES), {})
        async with running(made) as proxy:
            answer = await post(proxy.url, {"model": "m", "messages": chat(16)})
            metrics = await proxy.metrics()
            (run,) = lines(proxy, "summary")
    assert answer.status == 200
    assert (responses(metrics, "writer"), responses(metrics)) == ({code: 1}, {"2xx": 1})
    assert (run["outcome"], run["reason"], run["level"]) == ("failed", reason, "warning")


MANAGED = {"edits": [{"type": "clear_tool_uses_20250919"}]}


def failing_writer(received: Received) -> list[Step]:
    """Answers the chat, and the summary model with an error."""
    if received.json()["model"] == "writer":
        return json_reply({"error": {"type": "server_error"}}, 500)
    return sse_reply(EVENT) if received.json().get("stream") else json_reply(COMPLETION)


async def test_a_summary_that_failed_is_reported_as_what_was_done_instead() -> None:
    """In the headers, the comment of a stream, `applied_edits`, the log and the metrics."""
    body = {"model": "m", "messages": chat(16), "context_management": MANAGED}
    async with ScriptedUpstream(failing_writer) as upstream, running(upstream.base_url, SUMMARIES) as proxy:
        answer = await post(proxy.url, body)
        stream = await post(proxy.url, {**body, "stream": True}, authorization="Bearer another")
        again = await post(proxy.url, body)  # while the model is left alone
        metrics = await proxy.metrics()
        found = lines(proxy)
    for given in (answer, stream, again):
        assert "summarized=0, dropped=" in given.headers["x-trimtab-edits"]
        assert "dropped=0" not in given.headers["x-trimtab-edits"]
        assert given.headers["x-trimtab-summary"] == "fallback"
        assert "x-trimtab-summary-messages" not in given.headers
    comment = msgspec.json.decode(stream.body.split(b"\n")[0].removeprefix(b": trimtab "))
    assert (set(comment["edits"]), comment["summary"]) == ({"dropped"}, "fallback")
    (edit,) = answer.json()["context_management"]["applied_edits"]
    assert (edit["type"], edit["summary"], edit["messages"]) == ("trimtab_dropped", "fallback", found[0]["dropped"])
    assert [line["summary"] for line in found] == ["fallback"] * 3
    assert [line["summary_cause"] for line in found] == ["500 server_error", "500 server_error", "paused"]
    assert not [line for line in found if "summarized" in line]
    assert sample(metrics, 'trimtab_tokens_total{kind="dropped",model="m"}') > 0
    assert sample(metrics, 'trimtab_tokens_total{kind="summarized",model="m"}') == 0
    assert sample(metrics, 'trimtab_edits_total{model="m",stage="dropped"}') == 3 * found[0]["dropped"]


async def test_what_was_sent_is_counted_with_the_note_and_not_with_the_room_for_a_summary() -> None:
    async with ScriptedUpstream(failing_writer) as upstream, running(upstream.base_url, NO_EXTRACT) as proxy:
        failed = await post(proxy.url, {"model": "m", "messages": chat(16)})
    async with ScriptedUpstream(writing_as_writer) as upstream, running(upstream.base_url, NO_EXTRACT) as proxy:
        made = await post(proxy.url, {"model": "m", "messages": chat(16)})
    note, summary = text_tokens(NOTE), text_tokens(SUMMARY_TEXT)
    assert token_counts(failed)["sent"] - token_counts(made)["sent"] == note - summary


# -- refusals ----------------------------------------------------------------------------------------------------


async def test_a_refused_request_was_not_sent_and_says_so_everywhere() -> None:
    question = {"role": "user", "content": prose(20_000)}
    async with ScriptedUpstream() as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, {"model": "m", "messages": [*chat(3), question]})
        metrics = await proxy.metrics()
        (line,) = lines(proxy)
    assert answer.status == 400
    assert token_counts(answer)["sent"] == 0
    assert token_counts(answer)["original"] == line["tokens_original"] > 15_000
    assert answer.headers["x-trimtab-edits"] == "truncated=0, cleared=0, summarized=0, dropped=0, squeezed=0"
    assert answer.headers["x-trimtab-limit-source"] == "configured"
    assert "tokens_sent" not in line
    for kind in ("original", "sent", "dropped"):
        assert sample(metrics, f'trimtab_tokens_total{{kind="{kind}",model="other"}}') == 0
    assert sample(metrics, 'trimtab_window_fill_ratio_count{kind="original",model="other"}') == 1
    assert 'trimtab_window_fill_ratio_count{kind="sent"' not in metrics


async def test_a_second_send_does_not_make_the_overhead_negative() -> None:
    """Another summary is awaited before it."""

    def script(received: Received) -> list[Step]:
        if received.json()["model"] == "writer":
            return [Pause(0.3), *writing_as_writer(received)]
        return json_reply(OVERFLOW, 400) if len(received.body) > 25_000 else json_reply(COMPLETION)

    async with ScriptedUpstream(script) as upstream, running(upstream.base_url, NO_EXTRACT) as proxy:
        answer = await post(proxy.url, {"model": "m", "messages": chat(16)})
        metrics = await proxy.metrics()
        (line,) = lines(proxy)
    sent = [r for r in upstream.requests if r.json()["model"] == "m"]
    assert (answer.status, len(sent)) == (200, 2)
    assert upstream.requests[-2].json()["model"] == "writer"
    assert 0 < line["overhead_s"] < 0.3
    assert sample(metrics, "trimtab_overhead_seconds_sum") == pytest.approx(line["overhead_s"], abs=0.001)


# -- Redis -------------------------------------------------------------------------------------------------------


async def test_redis_going_and_coming_is_in_the_log() -> None:
    redis = Valkey()
    more = SUMMARIES + f'[redis]\nurl = "redis://{redis.address}/0"\n'
    body = {"model": "m", "messages": chat(16)}

    def script(received: Received) -> list[Step]:
        return json_reply(COMPLETION)

    async with ScriptedUpstream(script) as upstream, running(parse(toml(upstream.base_url, more), {})) as proxy:
        try:
            await proxy.parts.start()
            redis.kill()
            for _ in range(4):
                await post(proxy.url, body)
            (gone,) = lines(proxy, "redis")
            redis.start()

            async def came() -> bool:
                await post(proxy.url, body)
                return len(lines(proxy, "redis")) > 1

            await eventually(came, 15)
            back = lines(proxy, "redis")[1]
        finally:
            redis.stop()
    assert (gone["level"], gone["answers"], gone["cause"]) == ("warning", False, "connection")
    assert (back["level"], back["answers"]) == ("info", True)
