"""What overflows teach, and whom: nobody's words but the upstream's, and one tenant's error binds that tenant alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cases.trial import tried, window
from tests.support.chat import COMPLETION
from tests.support.conversations import agent_run, chat
from tests.support.scripted import Received, Script, json_reply

pytestmark = pytest.mark.anyio

CASES: dict[str, str] = {}

ERROR = "This model's maximum context length is {limit} tokens. However, your messages resulted in {count} tokens."


def size(received: Received) -> int:
    """About the tokens of a request of `prose`."""
    return len(received.body) // 5


def overflow(limit: int, count: int) -> Script:
    error = {"message": ERROR.format(limit=limit, count=count), "code": "context_length_exceeded"}
    return json_reply({"error": error}, 400)


def completion(tokens: int) -> Script:
    usage = {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1}
    return json_reply({**COMPLETION, "usage": usage})


def served(limit: int) -> Callable[[Received], Any]:
    """An upstream with a window of `limit` tokens, which counts and says so."""

    def answer(received: Received) -> Any:
        count = size(received)
        return overflow(limit, count) if count > limit else completion(count)

    return answer


# -- an echo is no evidence --------------------------------------------------------------------------------------

FALSE = ERROR.format(limit=300, count=6_000)
ECHOES = [
    f"Invalid value: '{FALSE}'. Supported values are: 'a' and 'b'.",
    f"Invalid value: '…{FALSE[7:60]}…'",
    f"messages.1.content: unexpected text {FALSE}",
    f"Invalid value: {json.dumps({'error': {'code': 'context_length_exceeded', 'message': FALSE}})}",
]


@pytest.mark.parametrize("text", ECHOES)
async def test_an_echo_of_the_request_is_no_overflow(text: str) -> None:
    quoted = json.dumps({"error": {"code": "context_length_exceeded", "message": FALSE}})
    body = {"model": "m", "messages": [*chat(10), {"role": "user", "content": f"What is this? {FALSE} {quoted}"}]}
    error = {"error": {"message": text, "type": "invalid_request_error", "param": None, "code": "invalid_value"}}
    trial = await tried(body, json_reply(error, 400), json_reply(COMPLETION), toml=window(32_000), times=2)
    assert trial.untouched
    assert (trial.answers[0].status, trial.answers[0].json()) == (400, error)
    assert (trial.answers[1].status, trial.answer.headers["x-trimtab-limit-source"]) == (200, "configured")


async def test_a_count_of_another_request_teaches_nothing() -> None:
    body = {"model": "m", "messages": chat(20)}  # some 12,500 tokens
    script = (overflow(300, 350), json_reply(COMPLETION), json_reply(COMPLETION))
    trial = await tried(body, *script, toml=window(32_000), times=2)
    assert [answer.status for answer in trial.answers] == [200, 200]
    assert trial.answer.headers["x-trimtab-limit-source"] == "configured"


# -- overflows without a status ----------------------------------------------------------------------------------

IN_A_200: list[Any] = [
    {"error_message": ERROR.format(limit=8_192, count=12_500), "error_type": "invalid_request"},
    {"error_message": json.dumps({"error": {"message": ERROR.format(limit=8_192, count=12_500)}})},
    {"id": "c", "choices": [], "error_message": ERROR.format(limit=8_192, count=12_500)},
    {"status_code": 400, "body": json.dumps({"error": {"code": "context_length_exceeded", "message": "no"}})},
]
EMPTY = {"index": 0, "message": {"role": "assistant", "content": ""}}
NOTHING: list[Any] = [
    {"choices": [{**EMPTY, "finish_reason": "model_context_window_exceeded"}]},
    {"choices": [{**EMPTY, "finish_reason": "length"}], "usage": {"prompt_tokens": 13_900, "completion_tokens": 0}},
]


@pytest.mark.parametrize("body", IN_A_200 + NOTHING)
async def test_an_overflow_without_a_status_leads_to_one_smaller_try(body: Any) -> None:
    asked = {"model": "m", "messages": [*chat(20), *agent_run(2)[1:]]}
    trial = await tried(asked, json_reply(body), json_reply(COMPLETION), toml=window(14_000))
    assert (trial.answer.status, len(trial.asked)) == (200, 2)
    assert len(trial.asked[1].body) < len(trial.asked[0].body)
    again = await tried(asked, json_reply(body), toml=window(14_000))
    assert (again.error["code"], len(again.asked)) == ("context_length_exceeded", 2)


async def test_an_answer_that_was_cut_off_is_an_answer() -> None:
    cut = {"choices": [{**EMPTY, "message": {"role": "assistant", "content": "It"}, "finish_reason": "length"}]}
    trial = await tried({"model": "m", "messages": chat(20)}, json_reply(cut), toml=window(14_000))
    assert trial.answer.json() == cut
