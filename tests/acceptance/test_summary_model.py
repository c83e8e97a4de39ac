"""A summary model that fails in any way is never the client's affair: the note stands where the summary would, one
failure is counted, and the model is left alone for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

from tests.acceptance.remembering import COMPACTION, WINDOW, Both, Script, answered, asking, facts, talk
from tests.support.chat import COMPLETION, post
from tests.support.conversations import prose
from tests.support.running import Running, running
from tests.support.scripted import CLOSE, RESET, STALL, Pause, Received, ScriptedUpstream, Step, json_reply, reply
from trimtab.context.texts import NOTE

pytestmark = pytest.mark.anyio

BODY = asking(talk(14))
CALL = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
WAITS = "summary_wait_s = 0.5\ncall_timeout_s = 0.4\n"


def always(steps: Sequence[Step]) -> Script:
    return lambda _: steps


FAILURES: dict[str, tuple[Script, str]] = {  # what it does, and how the call is counted
    "down": (always([CLOSE]), "failed"),
    "torn down": (always([RESET]), "failed"),
    "hanging": (always([STALL]), "failed"),
    "429": (always(json_reply({"error": {"message": "slow down"}}, 429, [(b"retry-after", b"60")])), "failed"),
    "500": (always(reply(500, b"<html>oops</html>")), "failed"),
    "401": (always(json_reply({"error": {"message": "Incorrect API key"}}, 401)), "failed"),
    "overflow": (always(json_reply({"error": {"code": "context_length_exceeded"}}, 400)), "failed"),
    "no completion": (always(json_reply({"ok": True})), "failed"),
    "not JSON": (always(reply(200, b"<html>")), "failed"),
    "empty": (always(answered("")), "rejected"),
    "nothing": (always(answered(None)), "rejected"),
    "blank": (always(answered(" \n\t ")), "rejected"),
    "cut off": (always(answered(prose(200), finish="length")), "rejected"),
    "filtered": (always(answered(prose(200), finish="content_filter")), "rejected"),
    "tool call": (always(answered(None, "tool_calls", tool_calls=[CALL])), "rejected"),
    "tool call and text": (always(answered(prose(100), tool_calls=[CALL])), "rejected"),
    "another language": (
        always(answered("Пользователь хочет закончить работу, и вот что было сказано раньше. " * 8)),
        "rejected",
    ),
    "longer than its input": (always(answered(prose(9_000))), "rejected"),
}


@pytest.mark.parametrize(("summary", "counted"), FAILURES.values(), ids=FAILURES)
async def test_the_client_never_sees_it(summary: Script, counted: str) -> None:
    model = Both(summary)
    toml = WINDOW + COMPACTION + WAITS
    async with ScriptedUpstream(model) as upstream, running(upstream.base_url, toml) as proxy:
        began = time.perf_counter()
        got = [await post(proxy.url, BODY) for _ in range(3)]
        seconds = time.perf_counter() - began
        metrics = await proxy.metrics()
    assert [(call.status, call.json()) for call in got] == [(200, COMPLETION)] * 3
    assert {call.headers["x-trimtab-summary"] for call in got} == {"fallback"}
    assert "x-trimtab-summary-messages" not in got[0].headers
    assert all(NOTE in request.body.decode() for request in model.chats)
    assert {request.body for request in model.chats} == {model.last}
    assert facts(model.last) < facts(BODY)
    assert len(model.summaries) == 1, "a failure is remembered"
    assert f'trimtab_summarizer_calls_total{{outcome="{counted}"}} 1.0' in metrics
    assert 'trimtab_summaries_total{result="fallback"} 3.0' in metrics
    assert seconds < 2.5
    assert "Traceback" not in proxy.log.getvalue()


async def test_a_model_that_is_slow_is_waited_for_a_while_and_found_the_next_time() -> None:
    def slow(received: Received) -> list[Step]:
        return [Pause(1.0), *answered(" ".join(sorted(facts(received.body))) + " " + prose(30))]

    model = Both(slow)
    toml = WINDOW + COMPACTION + "summary_wait_s = 0.3\n"
    async with ScriptedUpstream(model) as upstream, running(upstream.base_url, toml) as proxy:
        began = time.perf_counter()
        first = await post(proxy.url, BODY)
        waited = time.perf_counter() - began
        await made(proxy)
        second = await post(proxy.url, BODY)
    assert first.headers["x-trimtab-summary"] == "fallback"
    assert 0.3 <= waited < 0.9
    assert second.headers["x-trimtab-summary"] == "hit"
    assert facts(model.last) == facts(BODY)
    assert len(model.summaries) == 1


async def made(proxy: Running) -> None:
    """Wait until the one summary has been made."""
    for _ in range(60):
        if 'trimtab_summarizer_calls_total{outcome="made"} 1.0' in await proxy.metrics():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the summary was not made")


async def test_the_edits_applied_name_the_summary() -> None:
    """Clearing was asked for, in the vocabulary that asks for it; what else was done is told in ours."""
    edit = {"type": "clear_tool_uses_20250919"}
    body = asking(talk(14), context_management={"edits": [edit]})
    model = Both()
    async with ScriptedUpstream(model) as upstream, running(upstream.base_url, WINDOW + COMPACTION) as proxy:
        got = await post(proxy.url, body)
    (applied,) = got.json()["context_management"]["applied_edits"]
    assert (applied["type"], applied["summary"]) == ("trimtab_summarized", "miss")
    assert applied["summary_messages"] == int(got.headers["x-trimtab-summary-messages"]) > 5
    assert applied["removed_input_tokens"] > 2_000
