"""The way of requests of the other dialects, through the running proxy to a real loopback upstream."""

from __future__ import annotations

import itertools
from typing import Any

import aiohttp
import msgspec
import pytest
from msgspec import Raw

from tests.dialects import items, turns
from tests.support.chat import OVERFLOW, WINDOW, post
from tests.support.messages import prose
from tests.support.running import running
from tests.support.scripted import CLOSE, Pause, Received, ScriptedUpstream, Step, json_reply, sse_reply
from tests.support.waiting import eventually
from trimtab.context.texts import PLACEHOLDER
from trimtab.settings import parse

pytestmark = pytest.mark.anyio
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
USAGE = {"input_tokens": 900, "output_tokens": 7}
RESPONSE = {"id": "resp_1", "object": "response", "output": [], "usage": USAGE}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": USAGE}
ANSWERS = {RESPONSES: RESPONSE, MESSAGES: MESSAGE}
BOTH = pytest.mark.parametrize("path", [RESPONSES, MESSAGES])
CREATED = b'{"type":"response.created","response":{"usage":null}}'
STARTED = b'{"type":"message_start","message":{"usage":{"input_tokens":900,"output_tokens":1}}}'


def raw(listed: list[bytes]) -> list[Raw]:
    return [Raw(each) for each in listed]


def body(path: str, steps: int = 4, words: int = 900, **fields: Any) -> dict[str, Any]:
    """An agent's run of some steps."""
    runs = range(steps)
    if path == RESPONSES:
        listed = [items.message("Read."), *itertools.chain(*(items.cycle(n, prose(words)) for n in runs))]
        return {"model": "m", "input": raw(listed), **fields}
    listed = [turns.user("Read."), *itertools.chain(*(turns.cycle(n, prose(words)) for n in runs))]
    return {"model": "m", "max_tokens": 500, "messages": raw(listed), **fields}


def too_large(path: str) -> dict[str, Any]:
    if path == RESPONSES:
        return {"model": "m", "input": prose(200_000)}
    return {"model": "m", "max_tokens": 500, "messages": [{"role": "user", "content": prose(200_000)}]}


@BOTH
async def test_a_request_that_fits_goes_upstream_as_the_very_bytes_received(path: str) -> None:
    sent = msgspec.json.encode(body(path)).replace(b'{"model"', b'{ "x": 1e21, "model"')
    async with ScriptedUpstream(json_reply(ANSWERS[path])) as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, sent, path)
        metrics = await proxy.metrics()
    assert upstream.requests[0].body == sent
    assert upstream.requests[0].target == path
    assert answer.json() == ANSWERS[path]
    assert answer.headers["x-trimtab-limit-source"] == "configured"
    assert f'trimtab_paths_total{{path="{path.rpartition("/")[2]}"}} 1.0' in metrics


@BOTH
async def test_a_run_that_outgrew_the_window_is_cleared_and_goes_on(path: str) -> None:
    async with ScriptedUpstream(json_reply(ANSWERS[path])) as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, body(path, 40, 2_000), path)
    assert answer.status == 200
    assert PLACEHOLDER.encode() in upstream.requests[0].body
    assert "cleared=0" not in answer.headers["x-trimtab-edits"]


async def test_what_the_server_holds_passes_and_says_so() -> None:
    sent = msgspec.json.encode(body(RESPONSES, 40, 2_000, previous_response_id="resp_1"))
    async with ScriptedUpstream(json_reply(RESPONSE)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, sent, RESPONSES)
        metrics, line = await proxy.metrics(), msgspec.json.decode(proxy.log.getvalue().splitlines()[-1])
    assert upstream.requests[0].body == sent
    assert (line["outcome"], line["model"]) == ("unmanaged", msgspec.json.decode(sent)["model"])
    assert answer.headers["x-trimtab-unmanaged"] == "previous_response_id"
    assert 'outcome="unmanaged"' in metrics


async def test_a_mark_does_not_pass_with_what_the_server_holds() -> None:
    raw = b'{"model":"m", "previous_response_id":"r","input":[{"role":"user","content":"x" ,"pinned":true}]}'
    async with ScriptedUpstream(json_reply(RESPONSE)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        await post(proxy.url, raw, RESPONSES)
    assert upstream.requests[0].body == raw.replace(b' ,"pinned":true', b"")


@pytest.mark.parametrize(
    ("path", "events", "at", "name"),
    [
        (RESPONSES, [CREATED, b'{"type":"response.completed","response":{"id":"resp_1","x":1.0}}'], 1, "response"),
        (MESSAGES, [STARTED, b'{"type":"message_stop"}'], 0, "message"),
    ],
)
async def test_what_was_done_stands_in_an_event_that_every_client_reads(
    path: str, events: list[bytes], at: int, name: str
) -> None:
    sent = body(path, 40, 2_000, stream=True)
    async with ScriptedUpstream(sse_reply(*events)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, sent, path, **{"x-trimtab-explain": "true"})
    lines = [line.removeprefix(b"data: ") for line in answer.body.splitlines() if line.startswith(b"data: ")]
    found = [line for line in lines if line != b"[DONE]"]
    added = msgspec.json.decode(found[at])
    assert added[name].pop("trimtab")["edits"]["cleared"] > 0
    assert added == msgspec.json.decode(events[at])
    assert found[1 - at] == events[1 - at]
    assert len(found) == len(events)


@BOTH
async def test_the_plan_endpoint_reads_every_format(path: str) -> None:
    async with ScriptedUpstream() as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, body(path, 40, 2_000), "/v1/context/plan")
    assert answer.status == 200
    assert answer.json()["fits"]
    assert "cleared" in {edit["stage"] for edit in answer.json()["edits"]}
    assert upstream.requests == []


async def test_counting_tokens_is_not_managed() -> None:
    sent = msgspec.json.encode(body(MESSAGES, 40, 2_000))
    async with ScriptedUpstream(json_reply({"input_tokens": 9})) as upstream, running(upstream.base_url) as proxy:
        answer = await post(proxy.url, sent, MESSAGES + "/count_tokens?beta=true")
    assert upstream.requests[0].body == sent
    assert upstream.requests[0].target == MESSAGES + "/count_tokens?beta=true"
    assert answer.json() == {"input_tokens": 9}


async def test_each_dialect_may_have_its_own_address_and_key_header() -> None:
    async with ScriptedUpstream(json_reply(MESSAGE)) as upstream:
        toml = f"""
[[upstreams]]
name = "test"
base_url = "http://127.0.0.1:9/v1"
base_urls = {{ messages = "{upstream.origin}/anthropic/v1" }}
api_key = "sk-ant"
auth = "x-api-key"
retries = 0
[limits]
discover = false
"""
        async with running(parse(toml, {})) as proxy:
            answer = await post(proxy.url, body(MESSAGES), MESSAGES, authorization="Bearer sk-client")
    assert answer.status == 200
    assert upstream.requests[0].target == "/anthropic/v1/messages"
    assert upstream.requests[0].header(b"x-api-key") == b"sk-ant"
    assert upstream.requests[0].header(b"authorization") is None


# -- errors ------------------------------------------------------------------------------------------------------


async def test_what_cannot_fit_is_an_error_that_codex_knows() -> None:
    async with ScriptedUpstream() as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, too_large(RESPONSES), RESPONSES)
    error = answer.json()["error"]
    assert (answer.status, error["param"], error["code"]) == (400, "input", "context_length_exceeded")
    assert upstream.requests == []


async def test_what_cannot_fit_is_an_error_at_which_claude_code_compacts() -> None:
    async with ScriptedUpstream() as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, too_large(MESSAGES), MESSAGES)
    assert answer.status == 400
    assert answer.json()["type"] == "error"
    assert answer.json()["error"]["message"].startswith("prompt is too long: ")
    assert " > 7680 maximum. The prompt is too long: this model's" in answer.json()["error"]["message"]
    assert upstream.requests == []


async def test_an_overflow_in_the_words_of_openai_is_said_again_in_those_of_anthropic() -> None:
    question = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": prose(9_000)}]}
    async with ScriptedUpstream(json_reply(OVERFLOW, 400)) as upstream, running(upstream.base_url) as proxy:
        answer = await post(proxy.url, question, MESSAGES)
    assert answer.status == 400
    assert answer.json()["error"]["message"].startswith("prompt is too long: 6000 tokens > ")


async def test_codex_gets_no_413() -> None:
    toml = WINDOW + "[server]\nmax_body_mb = 1\n"
    async with ScriptedUpstream() as upstream, running(upstream.base_url, toml) as proxy:
        answers = [await post(proxy.url, b" " * (2 << 20), path) for path in (RESPONSES, MESSAGES)]
    assert [answer.status for answer in answers] == [400, 413]
    assert answers[1].json()["error"]["type"] == "request_too_large"


@pytest.mark.parametrize("path", [RESPONSES, "/v1/realtime"])
async def test_a_websocket_is_refused_so_that_https_is_used_at_once(path: str) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    async with (
        ScriptedUpstream() as upstream,
        running(upstream.base_url) as proxy,
        aiohttp.ClientSession() as session,
        session.get(proxy.url + path, headers=headers) as answer,
    ):
        assert answer.status == 426
        assert (await answer.json())["error"]["code"] == "upgrade_required"
    assert upstream.requests == []


# -- streams -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "quiet", "said"),
    [
        (RESPONSES, CREATED, b'{"type":"response.failed","response":{"error":{"code":"context_length_exceeded"}}}'),
        (
            MESSAGES,
            STARTED,
            b'{"type":"error","error":{"type":"invalid_request_error",'
            b'"message":"prompt is too long: 9000 tokens > 8000 maximum"}}',
        ),
    ],
)
async def test_an_overflow_after_events_that_say_nothing_is_mended(path: str, quiet: bytes, said: bytes) -> None:
    """Also where they do not come at once."""
    good = sse_reply(quiet, b'{"type":"content"}', done=False)
    async with (
        ScriptedUpstream(sse_reply(quiet, Pause(0.2), said, done=False), good) as upstream,
        running(upstream.base_url, WINDOW + "[server]\nkeepalive_s = 5\n") as proxy,
    ):
        answer = await post(proxy.url, body(path, 12, 2_000, stream=True), path)
    assert len(upstream.requests) == 2
    assert len(upstream.requests[1].body) < len(upstream.requests[0].body)
    assert b'{"type":"content"}' in answer.body
    assert said not in answer.body


@pytest.mark.parametrize(
    ("path", "events", "expected"),
    [
        (RESPONSES, [CREATED, msgspec.json.encode({"type": "response.completed", "response": RESPONSE})], (900, 7)),
        (MESSAGES, [STARTED, b'{"type":"message_delta","usage":{"output_tokens":7}}'], (900, 7)),
    ],
)
async def test_the_usage_of_a_stream_is_learned(path: str, events: list[bytes], expected: tuple[int, int]) -> None:
    async with ScriptedUpstream(sse_reply(*events, done=False)) as upstream, running(upstream.base_url) as proxy:
        await post(proxy.url, body(path, stream=True), path)
        record = msgspec.json.decode(proxy.log.getvalue().splitlines()[-1])
    assert b"stream_options" not in upstream.requests[0].body
    assert (record["prompt_tokens"], record["completion_tokens"]) == expected


@pytest.mark.parametrize(
    ("path", "form"), [(RESPONSES, b'event: error\ndata: {"type":"error","error":{'), (MESSAGES, b"event: error\n")]
)
async def test_a_stream_that_breaks_ends_in_an_error_of_the_dialect(path: str, form: bytes) -> None:
    broken = sse_reply(b'{"type":"content"}', done=False)[:-1]
    async with ScriptedUpstream([*broken, CLOSE]) as upstream, running(upstream.base_url) as proxy:
        answer = await post(proxy.url, body(path, stream=True), path)
    assert form in answer.body


# -- thinking ----------------------------------------------------------------------------------------------------

BOUND = {
    "type": "error",
    "error": {
        "type": "invalid_request_error",
        "message": "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different "
        "conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior`.",
    },
}


async def test_thinking_that_no_longer_fits_is_taken_out_once() -> None:
    """The model is of no known family: what the upstream says is remembered."""
    async with (
        ScriptedUpstream(json_reply(BOUND, 400), json_reply(MESSAGE)) as upstream,
        running(upstream.base_url, WINDOW) as proxy,
    ):
        first = await post(proxy.url, body(MESSAGES, 40, 2_000), MESSAGES)
        await post(proxy.url, body(MESSAGES, 40, 2_000), MESSAGES)
    assert first.status == 200
    thoughts = [each.body.count(b'"thinking"') for each in upstream.requests]
    assert thoughts[0] > thoughts[1]
    assert len(upstream.requests) == 3
    assert thoughts[2] < thoughts[0]


async def test_what_the_client_broke_itself_is_the_clients() -> None:
    async with ScriptedUpstream(json_reply(BOUND, 400)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, body(MESSAGES), MESSAGES)
    assert answer.json() == BOUND
    assert len(upstream.requests) == 1


@BOTH
async def test_a_summary_stands_in_the_gap(path: str) -> None:
    """Its model is called as the request was."""
    said = "The files were read, and nothing was found so far."

    def script(request: Received) -> list[Step]:
        asks = b"store" in request.body or b'"system":' in request.body
        if not asks:
            return json_reply(ANSWERS[path])
        output = [{"type": "message", "content": [{"type": "output_text", "text": said}]}]
        if path == RESPONSES:
            return json_reply({"output": output, "status": "completed", "usage": USAGE})
        return json_reply({"content": [turns.text(said)], "stop_reason": "end_turn", "usage": USAGE})

    toml = WINDOW + '[compaction]\nmodel = "same"\nsummary_wait_s = 20\n'
    asked = {"model": "m", "input" if path == RESPONSES else "messages": raw(_talk(path)), "max_tokens": 500}
    async with ScriptedUpstream(script) as upstream, running(upstream.base_url, toml) as proxy:
        answer = await post(proxy.url, asked, path)
    assert {each.target for each in upstream.requests} == {path}
    assert "summarized=0" not in answer.headers["x-trimtab-edits"]
    sent = upstream.requests[-1]
    assert said.encode() in sent.body
    assert b"[Conversation summary]" in sent.body


async def test_a_summary_of_items_is_asked_for_after_what_the_provider_has_cached() -> None:
    """A summary is made ahead of need: the call has the items that were sent, and one more."""
    said = "The files were read, and nothing was found so far."

    def script(request: Received) -> list[Step]:
        if b'"store":false' not in request.body:
            return json_reply(RESPONSE)
        part = {"type": "output_text", "text": said}
        item = {"type": "message", "content": [part]}
        return json_reply({"output": [item], "status": "completed", "usage": USAGE})

    toml = WINDOW + '[compaction]\nmodel = "same"\n'
    asked = {"model": "m", "instructions": "Read.", "max_output_tokens": 500, "input": raw(_talk(RESPONSES)[:46])}
    async with ScriptedUpstream(script) as upstream, running(upstream.base_url, toml) as proxy:
        await post(proxy.url, asked, RESPONSES)
        await eventually(lambda: len(upstream.requests) > 1)
    sent, call = (msgspec.json.decode(each.body) for each in upstream.requests[:2])
    length = len(call["input"]) - 1
    assert call["input"][:length] == sent["input"][:length]
    assert call["input"][length]["role"] == "user"
    assert (call["instructions"], call["stream"], call["store"]) == ("Read.", False, False)


def _talk(path: str) -> list[bytes]:
    """A long conversation without tools."""
    listed: list[bytes] = []
    for n in range(60):
        if path == RESPONSES:
            listed += [items.message(prose(500)), items.reasoning(n), items.message(prose(500), "assistant")]
        else:
            listed += [turns.user(prose(500)), turns.answer(prose(500))]
    return [*listed, items.message("And?") if path == RESPONSES else turns.user("And?")]


FULL = {"input_tokens": 8_192, "output_tokens": 0}
NOTHING = {
    RESPONSES: {"incomplete_details": {"reason": "max_output_tokens"}, "status": "incomplete", "output": []}
    | {"usage": FULL},
    MESSAGES: {"type": "message", "content": [], "stop_reason": "model_context_window_exceeded"},
}
ENDS = {
    RESPONSES: [CREATED, b'{"type":"response.incomplete","response":%b}' % msgspec.json.encode(NOTHING[RESPONSES])],
    MESSAGES: [STARTED, b'{"type":"message_delta","delta":{"stop_reason":"model_context_window_exceeded"}}'],
}


@BOTH
@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_of_nothing_leads_to_one_smaller_try(path: str, stream: bool) -> None:
    nothing = sse_reply(*ENDS[path], done=False) if stream else json_reply(NOTHING[path])
    asked = body(path, {RESPONSES: 18, MESSAGES: 40}[path], 500, stream=stream)  # some 6,000 tokens
    scripts, toml = (nothing, json_reply(ANSWERS[path])), WINDOW + "[shaping]\nextract_share = 0.0\n"
    async with ScriptedUpstream(*scripts) as upstream, running(upstream.base_url, toml) as proxy:
        answer = await post(proxy.url, asked, path)
        assert (answer.status, len(upstream.requests)) == (200, 2)
        assert answer.json() == ANSWERS[path]
        assert len(upstream.requests[1].body) < len(upstream.requests[0].body)
