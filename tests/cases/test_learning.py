"""What overflows teach, and whom: nobody's words but the upstream's, and one tenant's error binds that tenant alone."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.cases.case import case
from tests.cases.trial import tried, window
from tests.support.chat import COMPLETION, post, token_counts
from tests.support.conversations import agent_run, chat, prose
from tests.support.running import running
from tests.support.scripted import Pause, Received, Script, ScriptedUpstream, json_reply, sse_reply

pytestmark = pytest.mark.anyio

CASES = {
    "N02": "a server restarted with a smaller window: one smaller try, and what is served now is learned",
    "N03": "a lesson binds its route only, and ends as soon as more is listed or taken",
    "N17": "the window of one of several providers is a guess, which never refuses",
}

ERROR = "This model's maximum context length is {limit} tokens. However, your messages resulted in {count} tokens."


NO_EXTRACT = "[shaping]\nextract_share = 0.0\n"
LONG: dict[str, Any] = {"model": "m", "messages": chat(28, 500)}  # some 29,000 tokens
ALICE, BOB, CAROL = ({"authorization": f"Bearer {name}"} for name in ("alice", "bob", "carol"))


def size(received: Received) -> int:
    """About the tokens of a request of `prose`."""
    return len(received.body) // 5


def overflow(limit: int, count: int) -> Script:
    error = {"message": ERROR.format(limit=limit, count=count), "code": "context_length_exceeded"}
    return json_reply({"error": error}, 400)


def completion(tokens: int) -> Script:
    usage = {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1}
    return json_reply({**COMPLETION, "usage": usage})


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
    assert token_counts(trial.answer)["budget"] > 5_000


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


async def test_a_stream_of_nothing_leads_to_one_smaller_try() -> None:
    role = b'{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}'
    end = b'{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}'
    word = b'{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}'
    asked = {"model": "m", "stream": True, "messages": [*chat(20), *agent_run(1)[1:]]}
    trial = await tried(
        asked, sse_reply(role, end, split=20), sse_reply(role, word, end), toml=window(14_000) + NO_EXTRACT
    )
    assert (trial.answer.status, len(trial.asked)) == (200, 2)
    assert word in trial.answer.body
    late = sse_reply(Pause(1.0), role, end)  # as after a long prompt
    trial = await tried(asked, late, sse_reply(role, word, end), toml=window(14_000))
    assert (trial.answer.status, len(trial.asked)) == (200, 2)
    named = end.replace(b'"length"', b'"model_context_window_exceeded"')
    again = await tried(asked, sse_reply(role, named), toml=window(14_000) + NO_EXTRACT)
    assert (again.error["code"], len(again.asked)) == ("context_length_exceeded", 2)


async def test_an_answer_that_was_cut_off_is_an_answer() -> None:
    cut = {"choices": [{**EMPTY, "message": {"role": "assistant", "content": "It"}, "finish_reason": "length"}]}
    trial = await tried({"model": "m", "messages": chat(20)}, json_reply(cut), toml=window(14_000))
    assert trial.answer.json() == cut


# -- whom a lesson binds -----------------------------------------------------------------------------------------


async def test_one_tenants_error_binds_no_other() -> None:
    refused = json_reply({"error": {"message": "Maximum context length is 9000 tokens."}}, 400)

    def answer(received: Received) -> Any:
        alice = received.header(b"authorization") == b"Bearer alice"
        return refused if alice and size(received) > 9_000 else completion(size(received))

    async with ScriptedUpstream(answer) as upstream, running(upstream.base_url, window(40_000)) as proxy:
        answers = [await post(proxy.url, LONG, **who) for who in (ALICE, BOB, ALICE, BOB)]
    sources = [answer.headers["x-trimtab-limit-source"] for answer in answers]
    assert [answer.status for answer in answers] == [200] * 4
    assert sources == ["learned", "configured", "learned", "configured"]
    assert len(upstream.requests) == 5  # Alice was refused once


@pytest.mark.parametrize("counted", [True, False], ids=["the count agrees", "a second tenant is refused"])
async def test_a_lesson_that_is_agreed_binds_all(counted: bool) -> None:
    plain = json_reply({"error": {"message": "Maximum context length is 9000 tokens."}}, 400)

    def answer(received: Received) -> Any:
        count = size(received)
        return (overflow(9_000, count) if counted else plain) if count > 9_000 else completion(count)

    async with ScriptedUpstream(answer) as upstream, running(upstream.base_url, window(40_000)) as proxy:
        answers = [await post(proxy.url, LONG, **who) for who in (ALICE, BOB, CAROL)]
    assert [answer.status for answer in answers] == [200] * 3
    assert len(upstream.requests) == (4 if counted else 5)
    assert answers[-1].headers["x-trimtab-limit-source"] == "learned"


@pytest.mark.parametrize("name", ["x_goog_api_key", "x_portkey_api_key", "cookie"])
async def test_clients_told_apart_by_any_key_are_tenants_of_their_own(name: str) -> None:
    refused = json_reply({"error": {"message": "Maximum context length is 9000 tokens."}}, 400)
    headers = [{"authorization": "Bearer same", name: f"session={who}"} for who in ("a", "b")]
    async with (
        ScriptedUpstream(refused, completion(5_000), completion(29_000)) as upstream,
        running(upstream.base_url, window(40_000)) as proxy,
    ):
        answers = [await post(proxy.url, LONG, **who) for who in headers]
    assert [answer.headers["x-trimtab-limit-source"] for answer in answers] == ["learned", "configured"]


# -- N02: a smaller window ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("toml", [window(100_000, 4_096), ""], ids=["configured", "a guess"])
@pytest.mark.parametrize("named", [True, False], ids=["named", "without numbers"])
async def test_a_server_restarted_with_a_smaller_window(toml: str, named: bool) -> None:
    case_ = case("N02")
    assert "32768" in case_["upstream"]
    limit = {"tokens": 100_000}

    def answer(received: Received) -> Any:
        count = size(received)
        if count <= limit["tokens"]:
            return completion(count)
        plain = json_reply({"error": {"message": "Your input exceeds the context window of this model."}}, 400)
        return overflow(limit["tokens"], count) if named else plain

    body: dict[str, Any] = {"model": "m", "messages": chat(48, 590)}
    async with ScriptedUpstream(answer) as upstream, running(upstream.base_url, toml) as proxy:
        first = await post(proxy.url, body)
        limit["tokens"] = 32_768
        body["messages"] += [{"role": "assistant", "content": "It was."}, {"role": "user", "content": "And then?"}]
        second = await post(proxy.url, body)
        body["messages"] += [{"role": "assistant", "content": "It is."}, {"role": "user", "content": "And now?"}]
        asked = len(upstream.requests)
        third = await post(proxy.url, body)
    assert [answer.status for answer in (first, second, third)] == [200, 200, 200]
    assert (asked, len(upstream.requests)) == (3, 4)
    assert token_counts(first)["original"] == token_counts(first)["sent"] > 50_000
    assert third.headers["x-trimtab-limit-source"] == "learned"
    assert token_counts(third)["budget"] <= (32_768 if named else 60_000)


# -- a refusal that agrees with what is known --------------------------------------------------------------------


@pytest.mark.parametrize("words", [ERROR, "This prompt is too long."], ids=["named", "without numbers"])
async def test_an_overflow_of_what_was_sent_in_doubt_leaves_the_budget(words: str) -> None:
    """The upstream counts the input and refuses input and output together: its numbers are those already known."""

    def answer(received: Received) -> Any:
        count = size(received) * 21 // 20
        if count + 2_000 > 20_000:
            error = {"message": words.format(limit=20_000, count=count), "code": "context_length_exceeded"}
            return json_reply({"error": error}, 400)
        return completion(count)

    question = [{"role": "assistant", "content": "It was."}, {"role": "user", "content": "And then?"}]
    body: dict[str, Any] = {"model": "m", "max_tokens": 2_000, "messages": chat(14, 620)}  # some 19,300 tokens
    async with ScriptedUpstream(answer) as upstream, running(upstream.base_url, window(20_000, 2_000)) as proxy:
        before = await post(proxy.url, body, "/v1/context/plan")
        first = await post(proxy.url, body)
        body["messages"] += question
        second = await post(proxy.url, body)
    assert (first.status, second.status) == (200, 200)
    assert len(upstream.requests) == 3
    assert second.headers["x-trimtab-limit-source"] == "configured"
    assert token_counts(second)["budget"] == before.json()["budget"]


# -- N03: a lesson that is too wide, or too old ------------------------------------------------------------------


@pytest.mark.parametrize("routing", [{"provider": {"only": ["tiny-host"]}}, {"models": ["big", "small"]}])
async def test_a_routed_request_teaches_its_route_only(routing: dict[str, Any]) -> None:
    def answer(received: Received) -> Any:
        limit, count = 9_000 if routing.keys() & received.json().keys() else 100_000, size(received)
        return overflow(limit, count) if count > limit else completion(count)

    async with ScriptedUpstream(answer) as upstream, running(upstream.base_url, window(100_000)) as proxy:
        answers = [await post(proxy.url, LONG | more, **who) for who, more in ((BOB, routing), (ALICE, {}), (BOB, {}))]
        answers.append(await post(proxy.url, LONG | routing, **CAROL))
    sources = [answer.headers["x-trimtab-limit-source"] for answer in answers]
    assert sources == ["learned", "configured", "configured", "learned"]
    assert len(upstream.requests) == 5


async def test_a_larger_listing_takes_a_lesson_back() -> None:
    server = {"listed": 9_000, "limit": 9_000}

    def answer(received: Received) -> Any:
        if received.method == "GET":
            return json_reply({"data": [{"id": "m", "max_model_len": server["listed"]}]})
        count = size(received)
        return overflow(server["limit"], count) if count > server["limit"] else completion(count)

    toml = '[limits]\nfirst_wait_s = 2.0\nrefresh_s = 0.4\nask_usage = "never"\n'
    async with ScriptedUpstream(answer) as upstream, running(upstream.base_url, toml) as proxy:
        server["listed"] = 40_000
        assert (await post(proxy.url, LONG)).headers["x-trimtab-limit-source"] == "learned"
        server["limit"] = 40_000
        last = None
        for _ in range(30):
            last = await post(proxy.url, LONG)
            if last.headers["x-trimtab-limit-source"] == "discovered":
                break
            await asyncio.sleep(0.1)
    assert last is not None
    assert (last.status, last.headers["x-trimtab-limit-source"]) == (200, "discovered")
    assert token_counts(last)["sent"] > 25_000


async def test_a_larger_request_is_let_through_now_and_then() -> None:
    server = {"limit": 9_000}

    def answer(received: Received) -> Any:
        count = size(received)
        return overflow(server["limit"], count) if count > server["limit"] else completion(count)

    toml = '[limits]\ndiscover = false\nrefresh_s = 0.2\nask_usage = "never"\n' + window(40_000)
    async with ScriptedUpstream(answer) as upstream, running(upstream.base_url, toml) as proxy:
        assert (await post(proxy.url, LONG)).headers["x-trimtab-limit-source"] == "learned"
        assert len(upstream.requests) == 2
        await asyncio.sleep(0.3)
        assert (await post(proxy.url, LONG)).status == 200  # tried, refused, and shaped
        assert len(upstream.requests) == 4
        assert (await post(proxy.url, LONG)).status == 200
        assert len(upstream.requests) == 5
        server["limit"] = 40_000
        await asyncio.sleep(0.5)
        answers = [await post(proxy.url, LONG) for _ in range(2)]
    assert [answer.headers["x-trimtab-limit-source"] for answer in answers] == ["configured"] * 2
    assert len(upstream.requests) == 7


# -- N17: a guess ------------------------------------------------------------------------------------------------


async def test_the_window_of_one_provider_shapes_and_never_refuses() -> None:
    entry = {"id": "m", "context_length": 1_048_576, "top_provider": {"context_length": 32_000}}

    def answer(received: Received) -> Any:
        return json_reply({"data": [entry]}) if received.method == "GET" else completion(size(received))

    toml = '[limits]\nfirst_wait_s = 2.0\nask_usage = "never"\n'
    question = {"model": "m", "messages": [{"role": "user", "content": prose(48_000)}]}
    for body in (question, {"model": "m", "messages": chat(50, 600)}):
        trial = await tried(body, answer, toml=toml)
        assert (trial.answer.status, trial.answer.headers["x-trimtab-limit-source"]) == (200, "discovered")


# -- what cannot be given up -------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_tokens", [{}, {"max_tokens": 1_000}])
@pytest.mark.parametrize("question", [6_900, 7_400, 7_900])
async def test_a_floor_that_fits_is_sent_after_an_overflow(question: int, max_tokens: dict[str, int]) -> None:
    """The upstream counts a tenth more than is expected, and then less: what always stays fits by its own count."""
    asked = [*chat(3)[:-1], {"role": "user", "content": prose(question)}]

    def answer(received: Received) -> Any:
        body = received.json()
        return overflow(8_192, 8_600) if len(body["messages"]) > 3 else completion(8_000)

    trial = await tried({"model": "m", "messages": asked, **max_tokens}, answer, toml=window(8_192, 512))
    assert trial.answer.status == 200
    assert trial.messages[-1] == asked[-1]
    assert trial.messages[0] == asked[0]


# -- calibration -------------------------------------------------------------------------------------------------


async def test_one_tenants_odd_text_does_not_skew_anothers_new_conversation() -> None:
    odd = {"model": "m", "messages": [{"role": "user", "content": "\ue000" * 2_000}]}
    plain = {"model": "m", "messages": chat(10)}

    def answer(received: Received) -> Any:
        text = str(received.json()["messages"])
        return completion(4 * 2_000 if "\ue000" in text else size(received))

    async with ScriptedUpstream(answer) as upstream, running(upstream.base_url, window(40_000)) as proxy:
        before = await post(proxy.url, plain, "/v1/context/plan", **CAROL)
        for _ in range(60):
            await post(proxy.url, odd, **ALICE)
        after = await post(proxy.url, plain, "/v1/context/plan", **BOB)
    estimated = [answer.json()["tokens"]["original"] for answer in (before, after)]
    assert estimated[1] <= 1.3 * estimated[0]
