"""Budgets: what is counted, what is reserved, and that no arithmetic drives a conversation into a wall."""

from __future__ import annotations

import msgspec
import pytest

from tests.cases.case import case, request, tool
from tests.cases.trial import tried, window
from tests.support.chat import COMPLETION, token_counts
from tests.support.conversations import agent_run, chat, prose
from tests.support.scripted import json_reply
from trimtab.context.estimate.tokens import text_tokens
from trimtab.exchange.decide import REFUSE_AT

pytestmark = pytest.mark.anyio

CASES = {
    "B019": "what cannot be given up is sent while it fits, and refused once, with its parts, when it does not",
    "B021": "nothing runs twice: one request is shaped once, and the same prefix the same way",
    "B047": "tools are counted",
    "B050": "max_tokens is lowered rather than history deleted",
    "B102": "the output is reserved",
    "B103": "the reserve never takes more than half of the window",
    "B105": "max_tokens is not lowered to next to nothing",
    "B106": "both names of the output limit count, and neither is translated",
    "B112": "Chinese is counted as Chinese",
    "B113": "a model that counts otherwise is learned from its own usage",
    "B114": "an estimate grows with its text, and no text is free",
    "B116": "response_format and tools are counted",
    "B158": "one estimator, one budget: what was planned to fit is planned to fit when seen again",
}


async def test_the_irreducible_is_sent_while_it_fits_and_refused_once() -> None:
    body = request("B019")
    trial = await tried(body, toml=window(40_960, 4_096))
    assert trial.untouched
    refused = await tried(body, toml=window(16_384, 4_096))
    assert refused.asked == []
    tokens = refused.error["tokens"]
    assert refused.error["code"] == "context_length_exceeded"
    assert tokens["tools"] > tokens["limit"] > tokens["system"] + tokens["question"]


async def test_a_large_last_turn_and_a_large_reserve_still_go_in_one_request() -> None:
    messages = [
        {"role": "system", "content": prose(10_000)},
        *chat(20, 500)[1:-1],
        {"role": "user", "content": prose(15_000)},
    ]
    trial = await tried(
        {"model": "m", "max_tokens": 32_000, "messages": messages}, toml=window(65_536, 32_000), times=3
    )
    assert len(trial.asked) == 3
    assert len({received.body for received in trial.asked}) == 1
    assert trial.messages[0] == messages[0]
    assert trial.messages[-1] == messages[-1]


async def test_tools_count_before_it_is_too_late() -> None:
    trial = await tried(request("B047"), toml=window(32_768, 1_024))
    assert trial.asked == []
    assert trial.error["tokens"]["tools"] > 10_000
    few = await tried({**request("B047"), "tools": request("B047")["tools"][:2]}, toml=window(32_768, 1_024))
    assert few.untouched


@pytest.mark.parametrize("field", ["tools", "functions", "response_format"])
async def test_what_the_model_reads_beside_the_messages_counts(field: str) -> None:
    plain = token_counts((await tried({"model": "m", "messages": chat(1)})).answer)["original"]
    asked = request("B116")
    value = [t["function"] for t in asked["tools"]] if field == "functions" else asked[field]
    counted = token_counts((await tried({"model": "m", "messages": chat(1), field: value})).answer)["original"]
    assert counted - plain > 3_000


async def test_max_tokens_is_lowered_and_no_history_goes() -> None:
    trial = await tried(request("B050"), toml=window(204_800, 131_072))
    assert trial.messages == request("B050")["messages"]
    assert 90_000 < trial.sent["max_tokens"] < 131_072
    assert trial.edits.count("=0") == 5


async def test_the_output_is_reserved() -> None:
    asked = {"model": "m", "max_tokens": 38_400, "messages": chat(110, 300)}
    trial = await tried(asked, toml=window(104_857, 40_000))
    assert token_counts(trial.answer)["budget"] < 104_857 - 38_400
    assert token_counts(trial.answer)["sent"] + trial.sent["max_tokens"] <= 104_857


@pytest.mark.parametrize("asked", [20_000, 8_192, 10**9, 1, 0, -5])
async def test_no_reserve_makes_a_small_prompt_fail(asked: int) -> None:
    trial = await tried({**request("B103"), "max_tokens": asked}, toml=window(8_192))
    assert trial.untouched


async def test_max_tokens_is_never_lowered_to_next_to_nothing() -> None:
    for tokens in range(6_000, 8_000, 250):
        body = {"model": "m", "max_tokens": 2_000, "messages": [*chat(0), {"role": "user", "content": prose(tokens)}]}
        trial = await tried(body, toml=window(8_192, 2_048))
        if trial.asked:
            assert trial.sent["max_tokens"] >= 512


async def test_both_names_of_the_output_limit_are_known_and_kept() -> None:
    trial = await tried(request("B106"), toml=window(32_768, 16_384))
    assert trial.untouched
    assert token_counts(trial.answer)["budget"] == 16_384
    both = {**request("B106"), "max_tokens": 9_000, "messages": [{"role": "user", "content": prose(24_000)}]}
    lowered = (await tried(both, toml=window(32_768, 16_384))).sent
    assert lowered["max_tokens"] == lowered["max_completion_tokens"] < 9_000
    one = {key: value for key, value in both.items() if key != "max_tokens"}
    assert "max_tokens" not in (await tried(one, toml=window(32_768, 16_384))).sent


async def test_chinese_is_not_counted_by_fours() -> None:
    text = case("B112")["request"]["messages"][0]["content"]
    assert token_counts((await tried(request("B112"), toml=window(131_072))).answer)["original"] > len(text) * 0.45
    older = [
        {"role": "user", "content": text},
        {"role": "assistant", "content": "好"},
        {"role": "user", "content": "继续"},
    ]
    trial = await tried({"model": "m", "messages": older}, toml=window(16_384))
    counts = token_counts(trial.answer)
    assert counts["sent"] <= counts["budget"] < counts["original"]


async def test_a_model_that_counts_otherwise_is_learned_and_only_it() -> None:
    usage = {"prompt_tokens": 9_000, "completion_tokens": 1, "total_tokens": 9_001}
    body = {"model": "minimax", "messages": chat(4, 300)}
    trial = await tried(body, json_reply({**COMPLETION, "usage": usage}), toml=window(60_000), times=12)
    first, last = token_counts(trial.answers[0])["original"], token_counts(trial.answer)["original"]
    assert first < 4_500
    assert 7_000 < last < 13_000


@pytest.mark.parametrize("piece", ["a", "北", "é", "👩", " ", "\n", "0", "\u0e2a", "\u0000"])
def test_an_estimate_grows_with_its_text_and_no_text_is_free(piece: str) -> None:
    sizes = [text_tokens(piece * n) for n in range(1, 200)]
    assert sizes[0] >= 1
    assert sizes == sorted(sizes)
    for n in (10, 50, 90):
        assert abs(text_tokens(piece * 2 * n) - 2 * text_tokens(piece * n)) <= 2


@pytest.mark.parametrize("cycles", [8, 20, 60])
@pytest.mark.parametrize("tools", [0, 4])
async def test_what_was_planned_to_fit_is_planned_to_fit_again(cycles: int, tools: int) -> None:
    body = {
        "model": "m",
        "max_tokens": 1_000,
        "tools": [tool(n, 200) for n in range(tools)],
        "messages": agent_run(cycles, 400),
    }
    toml = window(8_192, 2_048)
    first = await tried(body, toml=toml)
    numbers = token_counts(first.answer)
    assert numbers["sent"] <= numbers["budget"] == 8_192 - 1_024
    again = await tried(first.asked[0].body, toml=toml)
    assert again.untouched
    assert abs(token_counts(again.answer)["original"] - numbers["sent"]) <= 4
    plan = await tried(body, toml=toml, path="/v1/context/plan")
    assert plan.answer.json()["tokens"]["sent"] == numbers["sent"]
    assert msgspec.json.decode(first.body)
    assert REFUSE_AT > 1
