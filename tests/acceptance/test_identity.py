"""Never a foreign or a stale summary, through the running proxy: every fact that reaches the model is one of this very
conversation, and every fact of the conversation reaches it."""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from typing import Any

import pytest

from tests.acceptance.remembering import COMPACTION, WINDOW, Both, asking, facts, keeping, talk
from tests.support.chat import Call, post
from tests.support.conversations import Message
from tests.support.running import running
from tests.support.scripted import Pause, Received, ScriptedUpstream, Step
from tests.support.valkey import Valkey

pytestmark = pytest.mark.anyio

TURNS = 14  # some 8,600 tokens of 7,168
EXACT = "the model reads all facts of this conversation, and none of another"


def changed(at: int) -> list[Message]:
    messages = copy.deepcopy(talk(TURNS))
    messages[at]["content"] = str(messages[at]["content"]).replace("FACT-000", "FACT-900")
    return messages


OTHERS: dict[str, tuple[list[Message], bool]] = {  # another conversation; whether the summary may be shared
    "the same again": (talk(TURNS), True),
    "the same opening": ([*talk(5)[:-1], *talk(9, 500)[1:]], False),
    "the same up to what was summarized": ([*talk(8)[:-1], *talk(6, 500)[1:]], True),
    "an edited question": (changed(3), False),
    "an answer edited long ago": (changed(6), False),
    "a regenerated answer": (changed(len(talk(TURNS)) - 2), True),
    "a branch with another question": ([*talk(TURNS)[:-1], {"role": "user", "content": "Stop. FACT-77777"}], True),
    "a message taken out": ([m for i, m in enumerate(talk(TURNS)) if i not in (3, 4)], False),
}


@pytest.mark.parametrize(("other", "shared"), OTHERS.values(), ids=OTHERS)
async def test_another_conversation(other: list[Message], shared: bool) -> None:
    model = Both()
    async with ScriptedUpstream(model) as upstream, running(upstream.base_url, WINDOW + COMPACTION) as proxy:
        await post(proxy.url, asking(talk(TURNS)), authorization="Bearer one")
        assert facts(model.last) == facts(asking(talk(TURNS))), EXACT
        calls = len(model.summaries)
        got = await post(proxy.url, asking(other), authorization="Bearer one")
        assert facts(model.last) == facts(asking(other)), EXACT
    assert calls >= 1
    assert got.headers["x-trimtab-summary"] == ("hit" if shared else "miss")
    assert (len(model.summaries) == calls) is shared
    assert int(got.headers["x-trimtab-summary-messages"]) > 5


async def test_two_tenants_with_the_same_conversation_share_nothing() -> None:
    model, body = Both(), asking(talk(TURNS))
    async with ScriptedUpstream(model) as upstream, running(upstream.base_url, WINDOW + COMPACTION) as proxy:
        got = [await post(proxy.url, body, authorization=f"Bearer {who}") for who in ("one", "two", "one")]
    credentials = Counter(call.header(b"authorization") for call in model.summaries)
    assert [call.headers["x-trimtab-summary"] for call in got] == ["miss", "miss", "hit"]
    assert credentials == {b"Bearer one": len(model.summaries) // 2, b"Bearer two": len(model.summaries) // 2}


async def test_a_conversation_that_grows_keeps_every_fact_and_is_read_once() -> None:
    model = Both()
    whole = talk(40)
    toml = WINDOW + COMPACTION
    async with ScriptedUpstream(model) as upstream, running(upstream.base_url, toml) as proxy:
        for stop in range(2, len(whole), 2):
            await post(proxy.url, asking(whole[:stop]), authorization="Bearer one")
            assert facts(model.last) == facts(asking(whole[:stop])), EXACT
    read = Counter(fact for call in model.summaries for fact in facts(call.json()["messages"][-1]["content"]))
    earlier = Counter(fact for call in model.summaries for fact in facts(_earlier(call)))
    assert set((read - earlier).values()) == {1}
    assert len(model.summaries) <= 8


def _earlier(call: Received) -> str:
    """The summary so far, which each call is given."""
    text = str(call.json()["messages"][-1]["content"])
    return text.partition("earlier summary]")[2].partition("\n[")[0]


async def test_fifty_at_once_on_two_replicas_make_one_call(redis: Valkey) -> None:
    def slow(received: Received) -> list[Step]:
        return [Pause(0.5), *keeping(received)]

    model, body = Both(slow), asking(talk(TURNS))
    toml = f'{WINDOW}{COMPACTION}[redis]\nurl = "redis://{redis.address}"\ntimeout_ms = 2000\n'
    async with (
        ScriptedUpstream(model) as upstream,
        running(upstream.base_url, toml) as one,
        running(upstream.base_url, toml) as two,
    ):
        calling = [post((one, two)[n % 2].url, body, authorization="Bearer one") for n in range(50)]
        got: list[Call] = await asyncio.gather(*calling)
    assert {call.status for call in got} == {200}
    assert {call.headers["x-trimtab-summary"] for call in got} <= {"miss", "hit"}
    assert len(model.summaries) == 1
    assert len({call.body for call in model.chats}) == 1
    assert facts(model.last) == facts(body), EXACT


async def test_what_lies_in_redis_tells_nothing(redis: Valkey) -> None:
    model, body = Both(), asking(talk(TURNS))
    toml = f'{WINDOW}{COMPACTION}[redis]\nurl = "redis://{redis.address}"\n'
    async with ScriptedUpstream(model) as upstream, running(upstream.base_url, toml) as proxy:
        await post(proxy.url, body, authorization="Bearer sk-secret")
    client: Any = redis.client()
    keys = client.keys()
    held = b"".join([*keys, *(client.get(key) or b"" for key in keys)])
    assert any(b":s:" in key for key in keys)
    assert not facts(held.decode("latin-1"))
    assert b"secret" not in held
