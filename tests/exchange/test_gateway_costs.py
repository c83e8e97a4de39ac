"""What summaries cost: in the log, in the metrics, and in the answer of a client that asks."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.chat import COMPLETION, Call, post
from tests.support.conversations import chat
from tests.support.running import Running, running, sample
from tests.support.scripted import Received, ScriptedUpstream, Step, sse_reply
from tests.support.summaries import SUMMARIES, SUMMARY_TEXT, writing_as_writer
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

EVENT = b'{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Done"}}]}'
WAITED = SUMMARIES + "precompact_share = 1.0\n"  # none ahead of need


def either(received: Received) -> list[Step]:
    """The summary model, and the model of the chat, as a stream where it is asked for."""
    return sse_reply(EVENT) if received.json().get("stream") else writing_as_writer(received)


def lines(proxy: Running, event: str) -> list[dict[str, Any]]:
    found = [msgspec.json.decode(line) for line in proxy.log.getvalue().splitlines()]
    return [line for line in found if line["event"] == event]


async def ask(proxy: Running, turns: int, **more: Any) -> Call:
    return await post(proxy.url, {"model": "m", "messages": chat(turns), **more}, x_trimtab_explain="true")


def so_far(calls: int) -> dict[str, int]:
    return {"calls": calls, "input_tokens": 900 * calls, "output_tokens": 60 * calls}


async def test_what_a_request_waited_for_is_in_its_line_and_every_run_in_the_metrics() -> None:
    async with ScriptedUpstream(either) as upstream, running(upstream.base_url, WAITED) as proxy:
        await ask(proxy, 16)
        await ask(proxy, 16)
        runs, (made, found) = lines(proxy, "summary"), lines(proxy, "exchange")
        metrics = await proxy.metrics()
    assert (made["compaction_in"], made["compaction_out"]) == (900 * len(runs), 60 * len(runs))
    assert "compaction_in" not in found
    assert not [run for run in runs if "background" in run or "reason" in run]
    for kind, tokens in (("compaction_in", 900), ("compaction_out", 60)):
        assert sample(metrics, f'trimtab_tokens_total{{kind="{kind}",model="writer"}}') == tokens * len(runs)


async def test_a_run_in_the_background_is_counted_and_named_as_one() -> None:
    async with ScriptedUpstream(either) as upstream, running(upstream.base_url, SUMMARIES) as proxy:
        first = await ask(proxy, 11)
        await eventually(lambda: bool(lines(proxy, "summary")))
        again = await ask(proxy, 11)
        runs, metrics = lines(proxy, "summary"), await proxy.metrics()
    assert first.headers["x-trimtab-summary"] == "background"
    assert "summaries_so_far" not in first.json()["trimtab"]
    assert again.json()["trimtab"]["summaries_so_far"] == so_far(len(runs))
    assert [run["background"] for run in runs] == [True] * len(runs)
    assert sample(metrics, 'trimtab_tokens_total{kind="compaction_in",model="writer"}') == 900 * len(runs)


async def test_a_client_learns_what_its_conversation_has_cost_in_summaries_so_far() -> None:
    async with ScriptedUpstream(either) as upstream, running(upstream.base_url, WAITED) as proxy:
        first = await ask(proxy, 16)
        calls = len(lines(proxy, "summary"))
        later = await ask(proxy, 40)
        more = len(lines(proxy, "summary"))
        stored = await ask(proxy, 40)
        streamed = await ask(proxy, 40, stream=True)
        managed = {"edits": [{"type": "clear_tool_uses_20250919"}]}
        edits = await post(proxy.url, {"model": "m", "messages": chat(40), "context_management": managed})
        silent = await post(proxy.url, {"model": "m", "messages": chat(40)})
    assert 0 < calls < more
    assert first.json()["trimtab"]["summaries_so_far"] == so_far(calls)
    assert later.json()["trimtab"]["summaries_so_far"] == so_far(more)  # the first part of it was made before
    assert stored.json()["trimtab"]["summaries_so_far"] == so_far(more)
    assert stored.headers["x-trimtab-compaction-tokens"] == "in=0, out=0"
    assert streamed.body.startswith(b": trimtab {")
    (added,) = [e for e in streamed.body.split(b"\n\n") if e.startswith(b"data: {") and b'"trimtab"' in e]
    shown = msgspec.json.decode(added.removeprefix(b"data: "))
    assert (shown["choices"], shown["trimtab"]["summaries_so_far"]) == ([], so_far(more))
    assert shown["trimtab"]["messages"]["sent"] == len(upstream.requests[-3].json()["messages"])
    assert shown["trimtab"]["first_kept"] > shown["trimtab"]["summary_messages"] > 0
    (applied,) = edits.json()["context_management"]["applied_edits"]
    assert applied["summaries_so_far"] == so_far(more)
    assert silent.json() == COMPLETION
    assert SUMMARY_TEXT not in str([first.json(), later.json()])


async def test_an_explained_answer_of_a_request_that_fits_says_so() -> None:
    async with ScriptedUpstream(either) as upstream, running(upstream.base_url, WAITED) as proxy:
        answer, stream = await ask(proxy, 1), await ask(proxy, 1, stream=True)
    assert answer.json()["trimtab"]["edits"] == {}
    assert answer.json()["trimtab"]["messages"] == {"received": 4, "sent": 4}
    assert answer.json()["trimtab"]["tokens"]["budget"] == 7_168
    assert stream.body.startswith(b': trimtab {"tokens":')
    assert stream.body.endswith(b"data: [DONE]\n\n")
    assert upstream.requests[0].header(b"x-trimtab-explain") is None


async def test_an_explained_answer_that_is_only_observed_says_what_would_be_done() -> None:
    async with ScriptedUpstream(either) as upstream, running(upstream.base_url, WAITED) as proxy:
        answer = await post(
            proxy.url, {"model": "m", "messages": chat(40)}, x_trimtab_explain="true", x_trimtab_observe="true"
        )
    assert len(upstream.requests[0].json()["messages"]) == 82
    assert answer.json()["trimtab"]["messages"]["received"] == 82
    assert answer.json()["trimtab"]["stages"][0]["stage"] == "summarized"
