"""What `POST /v1/context/plan?body=true` answers is what the upstream receives for the same request, byte for byte."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from tests.dialects import items, turns
from tests.support.chat import COMPLETION, WINDOW, post
from tests.support.conversations import agent_run, chat
from tests.support.holding import holding
from tests.support.messages import prose
from tests.support.running import running
from tests.support.scripted import ScriptedUpstream, json_reply
from tests.support.summaries import SUMMARIES, SUMMARY_TEXT, writing_as_writer

pytestmark = pytest.mark.anyio

PLAN = "/v1/context/plan?body=true"
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
RUNS = range(40)
INPUT = [Raw(items.message("Read.")), *map(Raw, itertools.chain(*(items.cycle(n, prose(900)) for n in RUNS)))]
BLOCKS = [Raw(turns.user("Read.")), *map(Raw, itertools.chain(*(turns.cycle(n, prose(900)) for n in RUNS)))]
PINNED = [*agent_run(2), {"role": "user", "content": "Keep this.", "pinned": True}, *agent_run(30)[2:]]
EDITS = {"edits": [{"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": 2}}]}
ASKED = [
    ("whole", CHAT, False, {"model": "m", "messages": agent_run(2)}),
    ("cleared", CHAT, True, {"model": "m", "messages": agent_run(30)}),
    ("dropped", CHAT, True, {"model": "m", "messages": chat(40)}),
    ("an output that does not fit", CHAT, True, {"model": "m", "messages": chat(18), "max_tokens": 5_000}),
    ("marks", CHAT, True, {"model": "m", "messages": PINNED}),
    ("edits of its own", CHAT, False, {"model": "m", "messages": agent_run(12), "context_management": EDITS}),
    ("a stream that is asked for its usage", CHAT, True, {"model": "m", "messages": agent_run(30), "stream": True}),
    ("items", RESPONSES, True, {"model": "m", "input": INPUT}),
    ("a text", RESPONSES, False, {"model": "m", "input": "hello"}),
    ("blocks", MESSAGES, True, {"model": "m", "max_tokens": 500, "system": "Be brief.", "messages": BLOCKS}),
]
TOML = WINDOW + '[limits]\ndiscover = false\nask_usage = "auto"\n'


@pytest.mark.parametrize("header", [{}, {"x_trimtab_bypass": "true"}, {"x_trimtab_observe": "1"}])
@pytest.mark.parametrize(("path", "shaped", "body"), [each[1:] for each in ASKED], ids=[each[0] for each in ASKED])
async def test_the_answer_is_what_the_upstream_receives(
    path: str, shaped: bool, body: dict[str, Any], header: dict[str, str]
) -> None:
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, TOML) as proxy:
        planned = await post(proxy.url, body, PLAN, **header)
        assert upstream.requests == []
        await post(proxy.url, body, path, **header)
    assert planned.status == 200
    assert planned.body == upstream.requests[0].body
    assert (len(planned.body) < 0.7 * len(msgspec.json.encode(body))) is (shaped and not header)


async def test_a_summary_that_has_been_made_stands_in_it_and_else_the_note() -> None:
    body = {"model": "m", "messages": chat(16)}
    toml = SUMMARIES + "precompact_share = 1.0\n"  # none ahead of need
    async with ScriptedUpstream(writing_as_writer) as upstream, running(upstream.base_url, toml) as proxy:
        before = await post(proxy.url, body, PLAN)
        assert upstream.requests == []
        await post(proxy.url, body)
        sent = [each.body for each in upstream.requests if each.json()["model"] == "m"]
        after = await post(proxy.url, body, PLAN)
        assert sent == [each.body for each in upstream.requests if each.json()["model"] == "m"]
    assert SUMMARY_TEXT.encode() not in before.body
    assert after.body == sent[0]
    assert SUMMARY_TEXT.encode() in after.body


async def test_a_stored_history_is_in_it(tmp_path: Path) -> None:
    async with holding(tmp_path) as stage:
        key = {"authorization": "Bearer sk-one"}
        await post(stage.proxy.url, {"model": "m", "input": "one"}, RESPONSES, **key)
        more = {"model": "m", "input": "two", "previous_response_id": "resp_1"}
        planned = await post(stage.proxy.url, more, PLAN, **key)
        await post(stage.proxy.url, more, RESPONSES, **key)
        assert planned.body == stage.upstream.requests[-1].body
        await post(stage.proxy.url, {"model": "m", "messages": chat(1)}, CHAT, x_trimtab_conversation="c", **key)
        more = {"model": "m", "messages": [{"role": "user", "content": "and?"}]}
        planned = await post(stage.proxy.url, more, PLAN, x_trimtab_conversation="c", **key)
        await post(stage.proxy.url, more, CHAT, x_trimtab_conversation="c", **key)
        assert planned.body == stage.upstream.requests[-1].body
        assert len(planned.json()["messages"]) == 6


@pytest.mark.parametrize("told", ["by the header", "by a field"])
async def test_texts_of_the_messages_api_are_told_from_a_chats(told: str) -> None:
    said = [{"role": ("user", "assistant")[n % 2], "content": prose(4_000)} for n in range(41)]
    body: dict[str, Any] = {"model": "m", "max_tokens": 500, "messages": said}
    headers = {"anthropic_version": "2023-06-01"} if told == "by the header" else {}
    body |= {} if headers else {"stop_sequences": ["END"]}
    answer = json_reply({"type": "message", "content": []})
    async with ScriptedUpstream(answer) as upstream, running(upstream.base_url, TOML) as proxy:
        planned = await post(proxy.url, body, PLAN, **headers)
        sent = await post(proxy.url, body, MESSAGES, **headers)
    assert (planned.status, sent.status) == (200, 200)
    assert planned.body == upstream.requests[-1].body
    assert b"Earlier messages" in planned.body
