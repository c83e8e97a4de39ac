"""Against a real llama.cpp server: its window is found, a conversation outgrows it without a refusal, a limit that is
configured too large is corrected, a small chat survives many times its window."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.llamacpp import llamacpp
from tests.support.chat import Call, post
from tests.support.conversations import Message
from tests.support.running import running

pytestmark = pytest.mark.anyio

DISCOVERING = '[limits]\ndiscover = true\nfirst_wait_s = 5.0\nask_usage = "auto"\n'
THINGS = "the harbour, the old bridge, a ferry at noon, two lighthouses, the market, some rope, and a map of the coast"


def question(n: int) -> Message:
    return {"role": "user", "content": f"Note {n}: we saw {THINGS}. Say yes."}


async def asked(url: str, messages: list[Message], **fields: Any) -> Call:
    return await post(url, {"model": "smollm2", "max_tokens": 4, "temperature": 0, "messages": messages, **fields})


def figures(call: Call) -> dict[str, int]:
    return {k: int(v) for k, v in (pair.split("=") for pair in call.headers["x-trimtab-tokens"].split(", "))}


def said(call: Call) -> Message:
    return {"role": "assistant", "content": call.json()["choices"][0]["message"]["content"] or "Yes."}


async def test_its_window_is_found_and_a_conversation_outgrows_it_without_a_refusal() -> None:
    async with llamacpp(512) as upstream, running(upstream, DISCOVERING) as proxy:
        messages: list[Message] = [{"role": "system", "content": "You are brief."}]
        calls = []
        for n in range(16):
            messages.append(question(n))
            calls.append(await asked(proxy.url, messages))
            messages.append(said(calls[-1]))
        plan = (await post(proxy.url, {"model": "smollm2", "messages": messages}, "/v1/context/plan")).json()
        metrics = await proxy.metrics()
    assert (plan["context_size"], plan["limit_source"]) == (512, "discovered")
    assert [call.status for call in calls] == [200] * 16
    assert figures(calls[-1])["original"] > 512 > figures(calls[-1])["sent"]
    assert 'trimtab_overflow_total{upstream="test"}' not in metrics
    read = [call.json()["usage"]["prompt_tokens"] for call in calls]
    assert max(read) <= 512


async def test_a_limit_configured_too_large_is_corrected_by_the_one_smaller_try() -> None:
    toml = '[models."*"]\ncontext_size = 8192\nmax_output_tokens = 64\n'
    messages = [{"role": "system", "content": "You are brief."}]
    for n in range(24):
        messages += [question(n), {"role": "assistant", "content": "Yes."}]
    messages.append(question(24))
    async with llamacpp(512) as upstream, running(upstream, toml) as proxy:
        first = await asked(proxy.url, messages)
        second = await asked(proxy.url, messages)
        metrics = await proxy.metrics()
    assert (first.status, second.status) == (200, 200)
    assert 'trimtab_overflow_total{upstream="test"} 1.0' in metrics
    assert 'trimtab_smaller_tries_total{result="saved"} 1.0' in metrics
    assert 'trimtab_limit_events_total{kind="learned_contradicts"} 1.0' in metrics
    assert second.headers["x-trimtab-limit-source"] == "learned"
    assert second.json()["usage"]["prompt_tokens_details"]["cached_tokens"] > 100


COMPACTION = """
[compaction]
model = "same"
max_summary_tokens = 100
summary_wait_s = 30
call_timeout_s = 30
"""


def day(n: int) -> Message:
    text = f"Day {n}: we saw {THINGS}, and paid {3 * n + 2} coins. It was {('sunny', 'rainy', 'cold')[n % 3]} there."
    return {
        "role": "user",
        "content": f"{text} Then we saw {THINGS} once more. Say in one short sentence what you think.",
    }


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_a_small_chat_survives_many_times_its_window() -> None:
    """The model is its own summarizer; what it writes is up to it, what is refused of it falls back to the note.
    What an estimate a little low lets through is mended by the one smaller try: the client never sees it."""
    async with llamacpp(1024) as upstream, running(upstream, DISCOVERING + COMPACTION) as proxy:
        messages: list[Message] = [{"role": "system", "content": "You are a friendly companion. Be brief."}]
        calls = []
        for n in range(22):
            messages.append(day(n))
            calls.append(await asked(proxy.url, messages, max_tokens=16))
            messages.append(said(calls[-1]))
    usage = [call.json()["usage"] for call in calls]
    read = sum(each["prompt_tokens"] for each in usage)
    cached = sum(each["prompt_tokens_details"]["cached_tokens"] for each in usage)
    assert {call.status for call in calls} == {200}
    assert figures(calls[-1])["original"] > 2 * 1024
    assert max(each["prompt_tokens"] for each in usage) <= 1024
    assert cached > read / 2
    told = {call.headers.get("x-trimtab-summary") for call in calls}
    assert told & {"hit", "miss", "fallback"}
