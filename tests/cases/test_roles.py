"""Roles: what is sent is as alternating, and as well begun, as what was received."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.cases.case import case, request
from tests.cases.trial import inflated, squeezed, still_valid, tried, window
from tests.support.conversations import agent_run, chat, prose
from tests.support.scripted import json_reply
from tests.support.summary_models import OPENING

pytestmark = pytest.mark.anyio

CASES = {
    "B060": "no two of a role side by side that were not so before, where the template is strict",
    "B062": "the summary comes in a user message where a second system message is refused; the client's own stay",
    "B064": "a role the upstream does not know: its error passes, nothing is mapped",
    "B130": "a greeting at the beginning stays while all fits, and nothing is put before it",
    "B133": "names are kept, and they are in the key of a summary (tests/summaries/test_summarizer.py has the latter)",
}
STRICT = 'summary_role = "user"\n'


def doubled(messages: list[Any]) -> int:
    """User or assistant messages that follow one of their kind."""
    talk = [m["role"] for m in messages if m["role"] in ("user", "assistant")]
    return sum(a == b for a, b in pairwise(talk))


@pytest.mark.parametrize("turns", [3, 12])
async def test_alternation_is_kept_for_a_strict_template(turns: int) -> None:
    short = inflated(request("B060")["messages"], 900)
    for messages in (short, chat(turns, 400)):
        changed = 0
        for _, sent in await squeezed({"model": "mistral-7b", "messages": messages}, STRICT):
            still_valid(sent, messages)
            assert doubled(sent) == 0
            assert [m["role"] for m in sent].count("system") == 1
            changed += sent != messages
        assert changed


async def test_a_summary_is_no_second_system_message_where_that_is_refused() -> None:
    summary = {
        "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": OPENING + "it is so."}}]
    }
    toml = STRICT + window(8_192) + '[compaction]\nmodel = "same"\nmax_summary_tokens = 300\n'
    messages = [*request("B062")["messages"][:1], *chat(20, 300)[1:]]
    trial = await tried({"model": "qwen3-vllm", "messages": messages}, json_reply(summary), toml=toml)
    assert "summarized=0" not in trial.edits
    assert [m["role"] for m in trial.messages].count("system") == 1
    assert any("[Conversation summary]" in m["content"] for m in trial.messages if m["role"] == "user")
    assert doubled(trial.messages) == 0
    middle = [*messages[:5], {"role": "system", "content": "from now on, briefly"}, *messages[5:]]
    trial = await tried({"model": "gpt-4o", "messages": middle}, toml=window(8_192))
    assert [m for m in trial.messages if m["role"] == "system"][-1]["content"] == "from now on, briefly"


async def test_an_unknown_role_is_the_upstreams_to_judge() -> None:
    answer = case("B064")["upstream"]
    body = {"model": "m", "messages": [{"role": "developer", "content": "x"}, {"role": "user", "content": "y"}]}
    trial = await tried(body, json_reply(answer["body"], answer["status"]))
    assert trial.untouched
    assert (trial.answer.status, trial.answer.json()) == (400, answer["body"])
    assert len(trial.asked) == 1


async def test_a_greeting_at_the_beginning_is_legitimate() -> None:
    messages = request("B130")["messages"]
    assert (await tried(request("B130"))).untouched
    for _, sent in await squeezed({"model": "m", "messages": inflated(messages)}):
        still_valid(sent, inflated(messages))
        assert sum(m["role"] == "user" for m in sent) <= 2  # none was put in


async def test_names_are_kept() -> None:
    messages = request("B133")["messages"]
    assert (await tried(request("B133"))).untouched
    said = [{**m, "name": f"n{i}"} if m["role"] == "user" else m for i, m in enumerate(chat(12))]
    trial = await tried({"model": "m", "messages": said}, toml=window(4_096))
    kept = [m for m in trial.messages if m in said]
    assert len(kept) < len(said)
    assert all("name" in m for m in trial.messages if m["role"] == "user" and m["content"].startswith("Question"))
    assert messages[0]["name"] == "alice"


async def test_a_system_prompt_is_never_touched_by_shaping() -> None:
    prompt = f"  \n{prose(500)}\t\n\n"
    messages = [{"role": "system", "content": prompt}, *agent_run(30)[1:]]
    trial = await tried({"model": "m", "messages": messages}, toml=window(8_192))
    assert trial.messages[0]["content"] == prompt
