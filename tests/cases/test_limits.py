"""Limits and refusals: what an upstream says is understood, believed as far as it may be, and told once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.case import case, request
from tests.cases.trial import still_valid, tried, window
from tests.support.chat import COMPLETION, post, token_counts
from tests.support.conversations import agent_run, chat
from tests.support.running import running
from tests.support.scripted import CLOSE, Script, ScriptedUpstream, json_reply, sse_reply
from trimtab.settings import parse

pytestmark = pytest.mark.anyio

CASES = {
    "B045": "a refusal is answered by one smaller try at most, and by no other",
    "B046": "GLM's 1261 is an overflow",
    "B048": "an error number is no limit",
    "B049": "an impossible limit is not believed, the overflow is",
    "B053": "what is served is what counts; a window that is known is never overrun, and an empty answer passes",
    "B054": "a tool result larger than the window is cut to fit, and stays the last message",
    "B055": "an unknown finish_reason passes",
    "B107": "an input limit below the window is configured, or learned for a time",
    "B109": "a guessed limit never refuses",
    "B111": "the exact name beats every pattern",
    "B148": "streams that are cut off teach nothing",
    "B149": "where the output is what is too much, no history goes",
    "B150": "an echoed prompt is not the upstream's own word",
    "B151": "quotas, credit and load are no overflow, whatever their status",
    "B159": "a lower bound calibrates nothing",
}
LONG: dict[str, Any] = {"model": "m", "messages": agent_run(12)}


def refusing(id: str) -> Script:
    answer = case(id)["upstream"]
    return json_reply(answer["body"], answer["status"])


async def test_a_refusal_is_never_repeated_as_it_was() -> None:
    gemini = json_reply(
        {"error": {"message": "The input token count (9000) exceeds the maximum number of tokens allowed (4000)."}}, 400
    )
    async with ScriptedUpstream(gemini) as upstream:
        patient = f'[[upstreams]]\nname = "test"\nbase_url = "{upstream.base_url}"\nretries = 2\n'
        async with running(parse(patient + "[limits]\ndiscover = false\n" + window(8_192), {})) as proxy:
            answer = await post(proxy.url, LONG)
    assert (answer.status, answer.json()["error"]["code"]) == (400, "context_length_exceeded")
    first, second = (len(received.body) for received in upstream.requests)
    assert second < first
    short = await tried({"model": "m", "messages": [{"role": "user", "content": "hi"}]}, gemini, toml=window(8_192))
    assert len(short.asked) == 1  # nothing smaller to send


@pytest.mark.parametrize("id", ["B046", "B048", "B049", "B107", "B159"])
async def test_it_is_understood_and_answered_once(id: str) -> None:
    trial = await tried(LONG, refusing(id), toml=window(8_192))
    assert trial.error["code"] == "context_length_exceeded"
    assert len(trial.asked) == 2
    saved = await tried(LONG, refusing(id), json_reply(COMPLETION), toml=window(8_192))
    assert saved.answer.status == 200


@pytest.mark.parametrize("id", ["B048", "B049"])
async def test_a_number_that_is_no_limit_is_not_learned(id: str) -> None:
    toml = window(204_800, 4_096)
    trial = await tried(LONG, refusing(id), json_reply(COMPLETION), json_reply(COMPLETION), toml=toml, times=2)
    assert trial.answer.headers["x-trimtab-limit-source"] == "configured"
    assert token_counts(trial.answer)["budget"] == 200_704


async def test_an_input_limit_is_learned_and_lower_than_the_window() -> None:
    body = {"model": "m", "messages": chat(460, 300)}
    toml = window(400_000, 16_384)
    trial = await tried(body, refusing("B107"), json_reply(COMPLETION), json_reply(COMPLETION), toml=toml, times=2)
    assert 250_000 < token_counts(trial.answers[0])["budget"] == token_counts(trial.answer)["budget"] <= 272_000
    assert trial.answer.headers["x-trimtab-limit-source"] == "learned"
    capped = await tried(body, toml=window(400_000, 16_384, max_input_tokens=272_000))
    assert token_counts(capped.answer)["budget"] == 272_000


async def test_a_lower_bound_calibrates_nothing() -> None:
    toml = window(131_072, 4_096)
    trial = await tried(LONG, refusing("B159"), json_reply({**COMPLETION, "usage": None}), toml=toml, times=2)
    assert token_counts(trial.answer)["original"] == token_counts((await tried(LONG, toml=toml)).answer)["original"]


async def test_an_empty_answer_passes_and_a_served_window_is_not_overrun() -> None:
    empty = sse_reply(
        b'{"choices":[{"index":0,"delta":{"role":"assistant"}}]}',
        b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
    )
    trial = await tried({**LONG, "stream": True}, empty)
    assert trial.answer.body.count(b"data: ") == 3
    models = json_reply({"data": [{"id": "m", "loaded_context_length": 4_096, "max_context_length": 131_072}]})
    toml = '[limits]\ndiscover = true\nfirst_wait_s = 2.0\nask_usage = "never"\n'

    def served(received: Any) -> Any:
        return models if received.method == "GET" else json_reply(COMPLETION)

    seen = await tried(LONG, served, toml=toml)
    assert seen.answer.headers["x-trimtab-limit-source"] == "discovered"
    assert token_counts(seen.answer)["sent"] <= token_counts(seen.answer)["budget"] < 4_096


async def test_a_result_larger_than_the_window_is_cut_and_stays_last() -> None:
    body = request("B054")
    trial = await tried(body, toml=window(4_096, 512))
    still_valid(trial.messages, body["messages"])
    assert [m["role"] for m in trial.messages] == ["user", "assistant", "tool"]
    result, whole = trial.messages[-1]["content"], body["messages"][-1]["content"]
    assert result.startswith(whole[:100])
    assert result.endswith(whole[-100:])
    assert token_counts(trial.answer)["sent"] <= token_counts(trial.answer)["budget"]


async def test_a_finish_reason_of_their_own_passes() -> None:
    body = case("B055")["upstream"]["body"]
    assert (await tried(LONG, json_reply(body))).answer.json() == body


async def test_a_guess_never_refuses_and_a_limit_does() -> None:
    body = {**request("B109"), "model": "nobody-knows-me"}
    assert (await tried(body)).untouched
    assert (await tried(body, toml=window(200_000))).asked == []


async def test_the_exact_name_beats_the_pattern() -> None:
    exact = '[models."gpt-5.9-custom"]\ncontext_size = 1050000\nmax_output_tokens = 50000\n'
    toml = exact + '[models."gpt-5*"]\ncontext_size = 272000\n'
    trial = await tried({"model": "gpt-5.9-custom", "messages": chat(1)}, toml=toml)
    assert token_counts(trial.answer)["budget"] == 1_000_000


async def test_streams_cut_near_the_window_teach_nothing() -> None:
    body = {"model": "m", "stream": True, "messages": chat(14, 230)}
    cut = sse_reply(b'{"choices":[{"index":0,"delta":{"content":"a"}}]}', CLOSE)
    trial = await tried(body, cut, toml=window(8_192, 512), times=4)
    assert {a.headers["x-trimtab-limit-source"] for a in trial.answers} == {"configured"}
    assert trial.untouched


async def test_where_the_output_is_too_much_no_history_goes() -> None:
    body = request("B149")
    trial = await tried(body, refusing("B149"), json_reply(COMPLETION))
    assert trial.answer.status == 200
    assert trial.messages == body["messages"]
    assert 200_000 < trial.sent["max_tokens"] < 262_000


LOOK_ALIKES: list[tuple[int, Any]] = [
    (400, case("B150")["upstream"]["body"]),
    (400, case("B151")["upstream"]["body"]),
    (429, {"error": {"message": "Rate limit reached: limit 30000 tokens per min, requested 45000.", "code": "x"}}),
    (503, {"error": {"message": "The model is overloaded. Please try again later.", "code": "overloaded"}}),
    (500, {"error": {"message": "1 validation error: prompt is too long? no: field required", "type": "server_error"}}),
    (400, {"error": {"message": "max_tokens is too large: 99999. The model supports at most 4096 completion tokens."}}),
    (400, {"error": {"message": "string too long. Expected a string with maximum length 1048576", "param": "x"}}),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body"), LOOK_ALIKES)
async def test_what_only_looks_like_it_passes_as_it_is(status: int, body: Any) -> None:
    trial = await tried(LONG, json_reply(body, status), toml=window(8_192))
    assert (trial.answer.status, trial.answer.json()) == (status, body)
    assert len(trial.asked) == 1
    assert not trial.line.get("overflow")


async def test_the_prompt_may_speak_of_limits() -> None:
    trial = await tried(request("B150"), refusing("B150"), toml=window(8_192))
    assert trial.answer.json() == case("B150")["upstream"]["body"]
