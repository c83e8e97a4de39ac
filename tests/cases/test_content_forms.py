"""Forms of content: whatever a message holds has a size, is passed on as it came, and breaks nothing."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.cases.case import case, request
from tests.cases.trial import inflated, squeezed, still_valid, tried, window
from tests.support.chat import COMPLETION
from tests.support.conversations import agent_run, chat, prose
from tests.support.scripted import json_reply, reply
from trimtab.context.estimate.tokens import MESSAGE_OVERHEAD

pytestmark = pytest.mark.anyio

CASES = {
    "B017": "a 413 for bytes: the oldest images go once, then a clear error",
    "B018": "every image has a size, a link too",
    "B066": "messages OpenAI would frown at pass",
    "B067": "an empty text stays an empty text",
    "B068": "no cleared or squeezed text is ever empty",
    "B069": "audio is counted by its size, and bounded",
    "B070": "files, by id and inline, are counted",
    "B071": "what is not known is counted, and no counting ever fails an answer",
    "B123": "a tool type nobody knows switches nothing off",
    "B161": "a prediction is counted and never shortened",
    "B166": "a hundred thousand messages take linear time; deep nesting breaks nothing",
    "B168": "messages that are none pass untouched",
}
PARTS = ["B018", "B069", "B070", "B071"]
NULLS = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": None}, {"role": "assistant"}]


def estimated(answer: Any) -> int:
    return int(answer.headers["x-trimtab-tokens"].partition("original=")[2].partition(",")[0])


@pytest.mark.parametrize("id", PARTS)
async def test_parts_that_are_no_text_have_a_size_and_pass(id: str) -> None:
    body = request(id)
    trial = await tried(body)
    assert trial.untouched
    assert 64_000 > estimated(trial.answer) > MESSAGE_OVERHEAD


@pytest.mark.parametrize("id", PARTS)
async def test_parts_that_are_no_text_survive_shaping(id: str) -> None:
    parts = request(id)["messages"][0]["content"]
    question = {"role": "user", "content": [{"type": "text", "text": "and this?"}, *parts]}
    messages = [*agent_run(20), question]
    for _, sent in await squeezed({"model": "m", "messages": messages}):
        still_valid(sent, messages)
        assert sent[-1] == question


@pytest.mark.parametrize("id", ["B066", "B067"])
async def test_odd_but_legal_messages_pass_and_keep_their_form(id: str) -> None:
    body = request(id)
    assert (await tried(body)).untouched
    odd = body["messages"][1:3]
    messages = [*chat(20)[:-1], *odd, {"role": "user", "content": "say ok"}]
    trial = await tried({"model": "m", "messages": messages}, toml=window(8_192))
    assert trial.messages[-1 - len(odd) : -1] == odd


async def test_no_text_is_made_empty() -> None:
    for messages in (agent_run(12, 700), chat(6, 900), inflated(request("B066")["messages"])):
        for _, sent in await squeezed({"model": "m", "messages": messages}):
            were = [m.get("content") for m in messages]
            assert all(m.get("content") or m.get("content") in were for m in sent)


async def test_an_unknown_tool_type_is_managed_like_any_other() -> None:
    body = {"model": "m", "tools": request("B123")["tools"], "messages": agent_run(30)}
    trial = await tried(body, toml=window(8_192))
    assert trial.sent["tools"] == [{"type": "web_search"}]
    assert "cleared=0" not in trial.edits
    custom = [
        {"type": "custom", "custom": {"name": "x", "format": {"type": "grammar"}}},
        {"type": "mcp"},
        "str",
        None,
        5,
    ]
    assert (await tried({**body, "tools": custom}, toml=window(8_192))).sent["tools"] == custom


async def test_a_prediction_counts_and_is_left_alone() -> None:
    body = request("B161")
    trial = await tried(body, toml=window(32_768))
    assert trial.untouched
    assert estimated(trial.answer) > 10_000
    long = {**body, "messages": agent_run(30)}
    shaped = await tried(long, toml=window(32_768, 1_024))
    assert shaped.sent["prediction"] == body["prediction"]


async def test_size_costs_linear_time() -> None:
    taken = []
    for count in (25_000, 100_000):
        began = time.perf_counter()
        trial = await tried({"model": "m", "messages": [{"role": "user", "content": "a"}] * count}, toml=window(10**7))
        taken.append(time.perf_counter() - began)
        assert trial.untouched
        shaped = await tried(
            {"model": "m", "messages": [{"role": "user", "content": f"a{i}"} for i in range(count)]},
            toml=window(50_000),
        )
        assert shaped.answer.status == 200
    assert taken[1] < max(4 * 4 * taken[0], 8)


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def asking(content: bytes, more: bytes = b"") -> bytes:
    return b'{"model":"m",%b"messages":[{"role":"user","content":%b}]}' % (more, content)


CALL = b'{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"%b"}}]}' % (b"[" * 10_000)
DEEP = {
    "content": asking(b"[" * 10_000 + b"]" * 10_000),
    "a part": asking(b'[{"type":"x","x":' + nested(900) + b"}]"),
    "a field": asking(b'"x"', b'"x":' + nested(10_000) + b","),
    "tools": asking(b'"x"', b'"tools":[' + nested(10_000) + b"],"),
    "arguments": b'{"model":"m","messages":[' + CALL + b"]}",
}


@pytest.mark.parametrize("body", DEEP.values(), ids=DEEP)
async def test_deep_nesting_passes_untouched(body: bytes) -> None:
    trial = await tried(body, toml=window(8_192))
    assert trial.untouched
    assert '"level":"error"' not in trial.log


async def test_messages_that_are_none_are_the_upstreams_to_judge() -> None:
    body = case("B168")["raw_body"].encode()
    refusal = {"error": {"message": "messages[0]: expected an object", "type": "invalid_request_error"}}
    trial = await tried(body, json_reply(refusal, 400))
    assert trial.untouched
    assert (trial.answer.status, trial.answer.json()) == (400, refusal)
    odd = [None, 5, "str", [], {}, {"role": 5}, {"role": None, "content": {}}, {"role": "tool"}, *NULLS]
    messages = [*agent_run(20), *odd, {"role": "user", "content": "go on"}]
    shaped = await tried({"model": "m", "messages": messages}, toml=window(8_192))
    assert shaped.answer.status == 200
    assert '"level":"error"' not in shaped.log


async def test_usage_that_cannot_be_counted_never_fails_an_answer() -> None:
    for usage in (None, [], "x", {"prompt_tokens": -1}, {"prompt_tokens": 10**30}, {"prompt_tokens": {"a": 1}}, 1.5):
        trial = await tried(request("B071"), json_reply({**COMPLETION, "usage": usage}))
        assert trial.answer.json()["usage"] == usage
        assert trial.lines[0]["outcome"] == "passed"
    assert (await tried(request("B071"), reply(200, b"not json"))).answer.body == b"not json"


# -- too many bytes ----------------------------------------------------------------------------------------------

TOO_LARGE = reply(413, b"<html>413 Request Entity Too Large</html>", [(b"content-type", b"text/html")])
REMOVED = "[image removed to keep the request within the upstream's size limit]"


def picture(n: int, size: int = 40_000) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{n:04d}" + "A" * size}}


def album(pictures: int) -> list[Any]:
    messages: list[Any] = [{"role": "system", "content": "You see."}]
    for n in range(pictures):
        messages.append({"role": "user", "content": [{"type": "text", "text": f"What is in {n}?"}, picture(n)]})
        messages.append({"role": "assistant", "content": f"A cat, number {n}."})
    return [*messages, {"role": "user", "content": [{"type": "text", "text": "And here?"}, picture(99)]}]


async def test_a_body_too_large_is_sent_once_more_without_its_oldest_images() -> None:
    messages = album(45)
    trial = await tried({"model": "m", "messages": messages}, TOO_LARGE, json_reply(COMPLETION), toml=window(200_000))
    first, second = trial.asked
    assert trial.answer.status == 200
    assert len(second.body) < len(first.body) * 0.6
    assert second.json()["messages"][-1] == messages[-1]
    kept = [m["content"][1]["type"] == "image_url" for m in second.json()["messages"] if m["role"] == "user"]
    assert kept == sorted(kept)  # the oldest go first
    assert second.json()["messages"][1]["content"][1] == {"type": "text", "text": REMOVED}
    assert second.json()["messages"][2] == messages[2]
    assert trial.line["outcome"] == "shaped"


async def test_images_in_tool_results_go_too() -> None:
    messages = agent_run(8, 20)
    for n in range(8):
        messages[3 + 2 * n]["content"] = [{"type": "text", "text": "a shot"}, picture(n)]
    messages.append({"role": "user", "content": "done?"})
    trial = await tried({"model": "m", "messages": messages}, TOO_LARGE, json_reply(COMPLETION), toml=window(200_000))
    assert trial.answer.status == 200
    still_valid(trial.messages, messages)
    assert len(trial.asked[1].body) < len(trial.asked[0].body) * 0.6


async def test_a_body_still_too_large_is_one_clear_error_that_passes() -> None:
    trial = await tried({"model": "m", "messages": album(45)}, TOO_LARGE, toml=window(200_000))
    assert len(trial.asked) == 2
    assert (trial.answer.status, trial.answer.body) == (413, b"<html>413 Request Entity Too Large</html>")


@pytest.mark.parametrize(
    "messages",
    [album(0), [{"role": "user", "content": prose(500)}], chat(3)],
    ids=["the only image is the question's", "one text", "no image"],
)
async def test_where_no_image_can_go_the_upstreams_answer_passes(messages: list[Any]) -> None:
    trial = await tried({"model": "m", "messages": messages}, TOO_LARGE, toml=window(200_000))
    assert len(trial.asked) == 1
    assert trial.answer.status == 413
