"""Tool calls and their results: a pair that was whole is never broken, at any budget."""

from __future__ import annotations

import json

import pytest

from tests.cases.case import request
from tests.cases.trial import inflated, squeezed, still_valid, tried
from tests.support.conversations import agent_run, cycle, prose
from trimtab.context.texts import PLACEHOLDER

pytestmark = pytest.mark.anyio

CASES = {
    "B003": "a batch of parallel calls goes or stays as one",
    "B004": "a doubled result is passed on as it is, and never made; with its call it goes or stays",
    "B005": "NOT AS EXPECTED: an unanswered call is left as the client sent it and goes with its turn; no result "
    "is made up for it: the upstream would have refused it without us too, and a made-up result would be believed",
    "B008": "results in another order than their calls",
    "B009": "arguments count, may be shortened, and stay JSON",
    "B056": "ids are never made or changed",
    "B059": "the same id in several turns pairs by position",
}


@pytest.mark.parametrize("id", CASES)
@pytest.mark.parametrize("before", [0, 6], ids=["alone", "after a long run"])
async def test_no_pair_is_broken_at_any_budget(id: str, before: int) -> None:
    messages = [*agent_run(before), *inflated(request(id)["messages"])][0 if before else 2 :]
    called = {c["id"] for m in messages for c in m.get("tool_calls") or []}
    seen = 0
    for _, sent in await squeezed({"model": "m", "messages": messages}):
        still_valid(sent, messages)
        assert {c["id"] for m in sent for c in m.get("tool_calls") or []} <= called
        seen += sent != messages
    assert seen


async def test_what_fits_goes_as_it_is_also_when_it_is_wrong() -> None:
    for id in ("B004", "B005"):
        assert (await tried(request(id))).untouched


async def test_a_doubled_result_is_not_doubled_again() -> None:
    for _, sent in await squeezed({"model": "m", "messages": inflated(request("B004")["messages"])}):
        results = [m["tool_call_id"] for m in sent if m["role"] == "tool"]
        assert results.count("t1") <= 2
        assert results.count("t2") <= 1


async def test_large_arguments_are_shortened_as_json() -> None:
    messages = request("B009")["messages"]
    sizes = []
    for _, sent in await squeezed({"model": "m", "messages": messages}):
        for message in sent:
            for call in message.get("tool_calls") or []:
                arguments = json.loads(call["function"]["arguments"])
                sizes.append(len(arguments.get("content", "")))
    assert min(sizes) < 10_000 < max(sizes) == 40_000


async def test_cleared_results_keep_their_ids() -> None:
    messages = agent_run(30)
    for n in range(30):
        messages[2 + 2 * n]["tool_calls"][0]["id"] = messages[3 + 2 * n]["tool_call_id"] = f"a1B2c3D{n:02d}"
    trial = await tried({"model": "m", "messages": messages}, toml='[models."*"]\ncontext_size = 8192\n')
    assert PLACEHOLDER in [m["content"] for m in trial.messages]
    assert [m["tool_call_id"] for m in trial.messages if m["role"] == "tool"] == [f"a1B2c3D{n:02d}" for n in range(30)]


async def test_a_reused_id_clears_the_old_result_and_not_the_new() -> None:
    messages = [{"role": "user", "content": "go"}]
    for n in range(20):
        call, result = cycle(n, 500)
        call["tool_calls"][0]["id"] = result["tool_call_id"] = "call_0"
        messages += [call, {**result, "content": f"result {n} {prose(500, n)}"}]
    trial = await tried({"model": "m", "messages": messages}, toml='[models."*"]\ncontext_size = 8192\n')
    results = [m["content"] for m in trial.messages if m["role"] == "tool"]
    assert results[0] == PLACEHOLDER
    assert results[-1].startswith("result 19")
