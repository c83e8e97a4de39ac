"""Before and after: what is shown is what the upstream received, message by message, in any dialect."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.chat import COMPLETION, OVERFLOW, WINDOW, post
from tests.support.conversations import agent_run, chat
from tests.support.pages import ask, read
from tests.support.running import running
from tests.support.scripted import ScriptedUpstream, json_reply
from tests.support.summaries import SUMMARIES, SUMMARY_TEXT, writing_as_writer

pytestmark = pytest.mark.anyio

TOOL = {"type": "function", "function": {"name": "read_file"}}
TEXT = f"{WINDOW}[ui]\ntext = true\n"
SUMMARY = {**COMPLETION, "choices": [{"index": 0, "message": {"role": "assistant", "content": SUMMARY_TEXT}}]}


def after(comparison: dict[str, Any]) -> list[bytes]:
    """The messages on the right side, as JSON."""
    gone = ("dropped", "summarized")
    rows = [row for row in comparison["messages"] if row["stage"] not in gone]
    return [(row["after"] if row["after"] is not None else row["before"]).encode() for row in rows]


def messages_of(body: bytes) -> list[bytes]:
    return [bytes(raw) for raw in msgspec.json.decode(body, type=dict[str, msgspec.Raw]) and _list(body)]


def _list(body: bytes) -> list[msgspec.Raw]:
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return msgspec.json.decode(fields["messages"], type=list[msgspec.Raw])


KEPT = [
    ("fits", agent_run(2), ""),
    ("cleared", agent_run(40), ""),
    ("dropped", chat(60), ""),
    ("with an extract", chat(60), "[shaping]\nextract_share = 0.1\n"),
    ("announced", agent_run(40)[1:], "[shaping]\nannounce = true\n"),
    ("announced beside a note", chat(60)[1:], "[shaping]\nannounce = true\nextract_share = 0\n"),
    ("observed", agent_run(40), '[shaping]\nmode = "observe"\n'),
]


@pytest.mark.parametrize(("conversation", "toml"), [c[1:] for c in KEPT], ids=[c[0] for c in KEPT])
async def test_a_kept_request_is_shown_as_the_upstream_received_it(conversation: list[Any], toml: str) -> None:
    body = msgspec.json.encode({"model": "m", "messages": conversation, "tools": [TOOL], "temperature": 0.5})
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, TEXT + toml) as proxy:
        await post(proxy.url, body)
        shown = await read(proxy.url, "/exchanges/1/text")
    received = upstream.requests[0].body
    assert after(shown) == [bytes(raw) for raw in _list(received)]
    assert [row["before"].encode() for row in shown["messages"] if row["before"]] == [bytes(r) for r in _list(body)]
    assert (shown["bytes_before"], shown["bytes_after"]) == (len(body), len(received))
    assert shown["unchanged"] is (received == body)
    total, rows = sum(row["tokens_after"] for row in shown["messages"]), len(shown["messages"])
    sent = shown["plan"]["tokens"]["sent"] - shown["kinds"]["tools"]
    assert total == pytest.approx(sent, abs=rows / 2)  # each is rounded


async def test_a_request_that_was_sent_twice_is_shown_as_it_was_sent_last() -> None:
    scripts = [json_reply(OVERFLOW, 400), json_reply(COMPLETION)]
    async with ScriptedUpstream(*scripts) as upstream, running(upstream.base_url, "[ui]\ntext = true\n") as proxy:
        await post(proxy.url, {"model": "m", "messages": agent_run(10)})
        shown = await read(proxy.url, "/exchanges/1/text")
    assert after(shown) == [bytes(raw) for raw in _list(upstream.requests[1].body)]


async def test_a_summary_stands_in_the_gap() -> None:
    toml = SUMMARIES + "[ui]\ntext = true\n"
    async with ScriptedUpstream(writing_as_writer) as upstream, running(upstream.base_url, toml) as proxy:
        await post(proxy.url, {"model": "m", "messages": chat(60)})
        shown = await read(proxy.url, "/exchanges/1/text")
        window = await read(proxy.url, "/exchanges/1")
    assert after(shown) == [bytes(raw) for raw in _list(upstream.requests[-1].body)]
    gap = [row for row in shown["messages"] if row["index"] is None]
    assert len(gap) == 1
    assert SUMMARY_TEXT in gap[0]["after"]
    assert window["cut"]["kept_as"] == "summary"
    assert sum(shown["kinds"].values()) == shown["plan"]["tokens"]["sent"]


async def test_any_request_is_planned_as_it_would_be_sent() -> None:
    body = {"model": "m", "messages": agent_run(40)}
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, TEXT) as proxy:
        shown = await read(proxy.url, "/plan", {"body": body})
        assert upstream.requests == []
        await post(proxy.url, body)
        again = await read(proxy.url, "/plan", {"number": 1})
    assert after(shown) == after(again) == [bytes(raw) for raw in _list(upstream.requests[0].body)]


async def test_settings_of_the_policy_change_what_would_be_sent() -> None:
    body = {"model": "m", "messages": agent_run(40)}
    async with ScriptedUpstream() as upstream, running(upstream.base_url, WINDOW) as proxy:
        plain = await read(proxy.url, "/plan", {"body": body})
        high = await read(proxy.url, "/plan", {"body": body, "shaping": {"target": 0.95}})
        wide = await read(proxy.url, "/plan", {"body": body, "context_size": 100_000})
    assert high["shaping"]["target"] == 0.95
    assert len(high["plan"]["edits"]) < len(plain["plan"]["edits"])
    assert (wide["plan"]["context_size"], wide["plan"]["edits"], wide["unchanged"]) == (100_000, [], True)


RESPONSES = {
    "model": "m",
    "input": [
        {"role": "user", "content": "Read all pages."},
        *(
            item
            for n in range(40)
            for item in (
                {"type": "function_call", "call_id": f"c{n}", "name": "read", "arguments": "{}"},
                {"type": "function_call_output", "call_id": f"c{n}", "output": f"page {n} " * 300},
            )
        ),
    ],
}


MESSAGES = {
    "model": "m",
    "system": "You read.",
    "messages": [
        {"role": "user", "content": "Read all pages."},
        *(
            message
            for n in range(40)
            for message in (
                {"role": "assistant", "content": [{"type": "tool_use", "id": f"c{n}", "name": "read", "input": {}}]},
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": f"c{n}", "content": f"page {n} " * 300}],
                },
            )
        ),
    ],
}
DIALECTS = [(RESPONSES, 81, "function_call"), (MESSAGES, 81, "tool_use")]


@pytest.mark.parametrize(("body", "elements", "call"), DIALECTS, ids=["responses", "messages"])
async def test_other_dialects_are_planned_in_their_own_form(body: Any, elements: int, call: str) -> None:
    async with ScriptedUpstream() as upstream, running(upstream.base_url, WINDOW) as proxy:
        shown = await read(proxy.url, "/plan", {"body": body})
    assert len(shown["messages"]) == elements
    assert {row["stage"] for row in shown["messages"]} == {"", "cleared"}
    assert f'"{call}"' in shown["messages"][elements - 80]["before"]
    assert sum(shown["kinds"].values()) == shown["plan"]["tokens"]["sent"]
    assert shown["kinds"]["results"] > 1_000


WRONG = [
    ({"body": {"model": "m", "messages": 3}}, "cannot be planned"),
    ({"body": {"model": "m", "messages": []}, "shaping": {"target": 3}}, "shaping: "),
    ({"body": {"model": "m", "messages": []}, "shaping": {"aim": 3}}, "shaping: "),
    ({"body": {"model": "m", "messages": []}, "context_size": 0}, "context_size"),
    ({"body": {"model": "m", "messages": []}, "profile": "nope"}, "Unknown profile"),
    ({"text": "x"}, "Cannot read what to plan"),
    (b'{"body": {', "Cannot read what to plan"),
]


@pytest.mark.parametrize(("asked", "words"), WRONG)
async def test_what_cannot_be_planned_is_refused_with_a_reason(asked: Any, words: str) -> None:
    async with ScriptedUpstream() as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await ask(proxy.url, "/plan", asked)
    assert answer.status == 400
    assert words in answer.json()["error"]["message"]


async def test_a_kept_request_is_planned_again_under_its_own_profile() -> None:
    toml = f"{TEXT}[profiles.small]\nbudget = 3000\n"
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, toml) as proxy:
        await post(proxy.url, {"model": "m", "messages": agent_run(10)}, x_trimtab_profile="small")
        sent, again = await read(proxy.url, "/exchanges/1/text"), await read(proxy.url, "/plan", {"number": 1})
    assert after(sent) == after(again)
    assert again["plan"]["budget"] == 3_000
