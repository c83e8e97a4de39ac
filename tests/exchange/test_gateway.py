"""The way of a request, through the running proxy to a real loopback upstream."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.support.chat import COMPLETION, OVERFLOW, WINDOW, post, token_counts
from tests.support.conversations import agent_run, chat, prose
from tests.support.running import running
from tests.support.scripted import CLOSE, STALL, Received, Script, ScriptedUpstream, Step, json_reply, reply, sse_reply
from trimtab.context.estimate.tokens import text_tokens
from trimtab.context.texts import CLEARED_TO_EXTRACT, EXTRACT, PLACEHOLDER

pytestmark = pytest.mark.anyio


async def test_a_request_that_fits_goes_upstream_as_the_very_bytes_received() -> None:
    fields = b'{ "model":"m", "seed":9223372036854775807,"x":1e21,\n '
    body = fields + b'"messages":[ {"role":"user","content":"<b> \\u00e9"} ] }'
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, body, authorization="Bearer sk-client", x_custom="kept")
    sent = upstream.requests[0]
    assert sent.body == body
    assert sent.header(b"authorization") == b"Bearer sk-client"
    assert sent.header(b"x-custom") == b"kept"
    assert answer.status == 200
    assert answer.json() == COMPLETION
    assert answer.headers["x-trimtab-limit-source"] == "configured"
    assert answer.headers["x-trimtab-edits"] == "truncated=0, cleared=0, summarized=0, dropped=0, squeezed=0"
    assert answer.headers["x-request-id"]


async def test_an_agent_run_that_outgrew_the_window_is_cleared_and_goes_on() -> None:
    messages = agent_run(30)
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, {"model": "m", "messages": messages, "tools": []})
        plan = (await post(proxy.url, {"model": "m", "messages": messages}, "/v1/context/plan")).json()
    sent = upstream.requests[0].json()["messages"]
    assert answer.status == 200
    assert sent[:2] == messages[:2]
    assert sent[-1] == messages[-1]
    assert PLACEHOLDER in [m["content"] for m in sent]
    assert [m.get("tool_call_id") for m in sent] == [m.get("tool_call_id") for m in messages]
    assert plan["fits"]
    assert plan["tokens"]["sent"] <= plan["budget"] == 7168
    assert {edit["stage"] for edit in plan["edits"]} == {"cleared"}


def extracts(messages: list[dict[str, str]]) -> list[str]:
    """What was sent of removed messages and cleared results, word for word."""
    texts = [message["content"] or "" for message in messages]
    cleared = [text.removeprefix(CLEARED_TO_EXTRACT) for text in texts if text.startswith(CLEARED_TO_EXTRACT)]
    return [*cleared, *(text[text.index(EXTRACT) :] for text in texts if EXTRACT in text)]


async def test_the_answer_counts_what_is_kept_as_an_extract() -> None:
    named = agent_run(40)
    for n, message in enumerate(named):
        if message["role"] == "tool":
            message["content"] = f"src/module_{n}.py:12: error in parse_{n}(), see E{1000 + n}\n{message['content']}"
    cases = (("cleared", named), ("dropped", chat(40)))
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        for stage, messages in cases:
            body = {"model": "m", "messages": messages, "context_management": {"edits": []}}
            answer = await post(proxy.url, body)
            found = extracts(upstream.requests[-1].json()["messages"])
            kept = int(answer.headers["x-trimtab-edits"].rpartition("extract=")[2])
            [edit] = answer.json()["context_management"]["applied_edits"]
            assert found
            assert stage in str(edit)
            assert edit["extract_tokens"] == kept
            counted = sum(map(text_tokens, found)) * 1.1  # what a model without a count is taken to count
            assert kept == pytest.approx(counted, rel=0.05)
        plain = await post(proxy.url, {"model": "m", "messages": agent_run(30)})  # results without a name in them
    assert extracts(upstream.requests[-1].json()["messages"]) == []
    assert plain.headers["x-trimtab-edits"] == "truncated=0, cleared=24, summarized=0, dropped=0, squeezed=0"


async def test_what_cannot_fit_is_refused_before_the_upstream_is_called() -> None:
    question = {"role": "user", "content": prose(20_000)}
    async with ScriptedUpstream() as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, {"model": "m", "messages": [question]})
    error = answer.json()["error"]
    assert answer.status == 400
    assert (error["type"], error["param"], error["code"]) == (
        "invalid_request_error",
        "messages",
        "context_length_exceeded",
    )
    assert answer.headers["x-should-retry"] == "false"
    assert error["tokens"]["limit"] == 7168
    assert error["tokens"]["question"] > 15_000
    assert "new chat" in error["message"]
    assert upstream.requests == []


async def test_a_guessed_limit_never_refuses() -> None:
    question = {"role": "user", "content": prose(150_000)}
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url) as proxy:
        answer = await post(proxy.url, {"model": "nobody-knows-me", "messages": [question]})
    assert answer.status == 200
    assert upstream.requests[-1].json()["messages"] == [question]


async def test_an_overflow_is_answered_by_one_smaller_try() -> None:
    scripts = (json_reply(OVERFLOW, 400), json_reply(COMPLETION))
    async with ScriptedUpstream(*scripts) as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, {"model": "m", "messages": agent_run(12)})
    first, second = (len(request.body) for request in upstream.requests)
    assert answer.status == 200
    assert second < first * 0.8


async def test_a_second_overflow_is_one_clear_error() -> None:
    async with ScriptedUpstream(json_reply(OVERFLOW, 413)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, {"model": "m", "messages": agent_run(12)})
    error = answer.json()["error"]
    assert (answer.status, error["code"]) == (400, "context_length_exceeded")
    assert answer.headers["x-should-retry"] == "false"
    assert error["upstream"].startswith("This model's maximum context length is 4096")
    assert len(upstream.requests) == 2


async def test_streams_are_relayed_byte_for_byte_with_one_comment_when_shaped() -> None:
    events = [b'{"id":"c","choices":[{"index":0,"delta":{"content":"\xe5\x8c\x97"}}]}', b'{"choices":[],"usage":null}']
    async with ScriptedUpstream(sse_reply(*events, split=7)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        plain = await post(proxy.url, {"model": "m", "stream": True, "messages": chat(1)})
        shaped = await post(proxy.url, {"model": "m", "stream": True, "messages": agent_run(30)})
    expected = b"".join(b"data: " + event + b"\n\n" for event in [*events, b"[DONE]"])
    assert plain.body == expected
    comment, _, rest = shaped.body.partition(b"\n\n")
    assert comment.startswith(b": trimtab {")
    assert msgspec.json.decode(comment[len(b": trimtab ") :])["edits"]["cleared"] > 0
    assert rest == expected


async def test_an_upstream_that_dies_in_a_stream_becomes_an_error_event() -> None:
    script = sse_reply(b'{"choices":[]}', CLOSE)
    async with ScriptedUpstream(script) as upstream, running(upstream.base_url) as proxy:
        answer = await post(proxy.url, {"model": "m", "stream": True, "messages": chat(1)})
    last = answer.body.strip().rpartition(b"data: ")[2]
    assert msgspec.json.decode(last)["error"]["code"] == "upstream_unreachable"
    assert b"[DONE]" not in answer.body


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_takes_its_upstream_call_with_it(stream: bool) -> None:
    script = sse_reply(b'{"choices":[]}', STALL) if stream else [STALL]
    async with ScriptedUpstream(script) as upstream, running(upstream.base_url) as proxy:
        calling = asyncio.ensure_future(post(proxy.url, {"model": "m", "stream": stream, "messages": chat(1)}))
        while not upstream.requests:  # noqa: ASYNC110  the script has no event for it
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        calling.cancel()
        await asyncio.wait_for(upstream.left.wait(), 2)
        await asyncio.sleep(0.05)
        assert '"outcome":"abandoned"' in proxy.log.getvalue()


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (429, b'{"error":{"message":"slow down","code":"rate_limit_exceeded"}}', [(b"retry-after", b"30")]),
        (401, b'{"error":{"message":"Incorrect API key"}}', [(b"x-request-id", b"req_1")]),
        (413, b"<html>413 Request Entity Too Large</html>", [(b"content-type", b"text/html")]),
        (500, b"", []),
    ],
)
async def test_other_errors_pass_as_they_are(status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    async with ScriptedUpstream(reply(status, body, headers)) as upstream, running(upstream.base_url) as proxy:
        answer = await post(proxy.url, {"model": "m", "messages": chat(1)})
    assert (answer.status, answer.body) == (status, body)
    for name, value in headers:
        assert answer.headers[name.decode()] == value.decode()
    assert len(upstream.requests) == 1


BAD = [
    (b"", 400),
    (b"{", 400),
    (b'{"model":"m","messages":[{"role":"user","content":"\xff"}', 400),
    (b"null", 200),
    (b"[]", 200),
    (b'{"model":"m"}', 200),
    (b'{"model":5,"messages":"x"}', 200),
    (b'{"model":"m","messages":[null,{"role":"user","content":5},{"content":"x"},"str"]}', 200),
    (b'{"model":"m","max_tokens":"many","stream":3,"messages":[{"role":"alien","content":"x"}]}', 200),
    (b'{"model":"m","messages":[{"role":"user","content":"bad \\ud83d here"}]}', 200),
    (b'{"model":"m","model":"n","messages":[],"messages":[{"role":"tool","tool_call_id":"x","content":"y"}]}', 200),
    (b'{"model":"m","messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 200),
]


@pytest.mark.parametrize(("body", "status"), BAD, ids=range(len(BAD)))
async def test_any_body_gets_a_typed_error_or_goes_on_untouched(body: bytes, status: int) -> None:
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url) as proxy:
        answer = await post(proxy.url, body)
    assert answer.status == status, answer.body
    if status == 400:
        assert answer.json()["error"]["type"] == "invalid_request_error"
    else:
        assert upstream.requests[0].body == body


async def test_context_management_is_obeyed_stripped_and_answered() -> None:
    edit = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "tool_uses", "value": 3},
        "keep": {"type": "tool_uses", "value": 2},
        "clear_tool_inputs": True,
    }
    body = {"model": "m", "messages": agent_run(8, 100), "context_management": {"edits": [edit]}}
    stream = sse_reply(b'{"id":"c9","object":"chat.completion.chunk","created":3,"model":"m","choices":[]}')
    async with (
        ScriptedUpstream(json_reply(COMPLETION), stream) as upstream,
        running(upstream.base_url, WINDOW) as proxy,
    ):
        answer = await post(proxy.url, body)
        streamed = await post(proxy.url, {**body, "stream": True})
        wrong = await post(proxy.url, {**body, "context_management": {"edits": [{**edit, "kep": 1}]}})
    sent = upstream.requests[0].json()
    applied = answer.json()["context_management"]["applied_edits"]
    assert "context_management" not in sent
    assert sum(m["content"] == PLACEHOLDER for m in sent["messages"]) == 6
    assert [m["tool_calls"][0]["function"]["arguments"] for m in sent["messages"] if "tool_calls" in m][:1] == ["{}"]
    assert applied[0]["type"] == edit["type"]
    assert applied[0]["cleared_tool_uses"] == 6
    assert applied[0]["cleared_input_tokens"] > 0
    last = streamed.body.strip().split(b"\n\n")[-2].removeprefix(b"data: ")
    shown = msgspec.json.decode(last)
    assert (shown["id"], shown["context_management"]["applied_edits"][0]["cleared_tool_uses"]) == ("c9", 6)
    assert (wrong.status, wrong.json()["error"]["param"]) == (400, "context_management")


async def test_edits_for_another_provider_fail_nothing() -> None:
    """What Anthropic's clients send to every provider: one edit that bounds what is sent here, one of no effect."""
    edits = [
        {"type": "clear_thinking_20251015", "keep": "all"},
        {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 3_000}},
    ]
    body = {"model": "m", "messages": agent_run(30), "context_management": {"edits": edits}}
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, body)
        await post(proxy.url, {**body, "context_management": None})
    told = answer.json()["context_management"]
    assert answer.status == 200
    assert told["ignored_edits"] == [{"type": "clear_thinking_20251015"}]
    assert told["applied_edits"]
    assert answer.headers["x-trimtab-tokens"].endswith("budget=3000")
    assert len(upstream.requests[0].body) < len(upstream.requests[1].body)


async def test_nothing_of_ours_goes_upstream_and_pins_are_stripped() -> None:
    messages = [{"role": "user", "content": "keep me", "pinned": True, "vendor": {"x": 1}}, *chat(1)]
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url) as proxy:
        await post(proxy.url, {"model": "m", "messages": messages}, x_trimtab_hint="general")
    sent = upstream.requests[0]
    assert sent.json()["messages"][0] == {"role": "user", "content": "keep me", "vendor": {"x": 1}}
    assert not [name for name, _ in sent.headers if name.lower().startswith(b"x-trimtab")]


GOAL = "Which of these fails, and why?"
LOG = "12:00:01 step 7 took 31 ms and reported 200\n" * 1_500
DIALECTS = {
    "/v1/chat/completions": ("messages", {}, "text"),
    "/v1/responses": ("input", {}, "input_text"),
    "/v1/messages": ("messages", {"max_tokens": 100}, "text"),
}


@pytest.mark.parametrize("path", DIALECTS)
@pytest.mark.parametrize(("size", "header"), [(100, {}), (len(LOG), {}), (len(LOG), {"x_trimtab_bypass": "true"})])
async def test_marked_context_is_cut_where_it_does_not_fit_and_no_mark_goes_upstream(
    path: str, size: int, header: dict[str, str]
) -> None:
    name, fields, kind = DIALECTS[path]
    content = [{"type": kind, "text": LOG[:size], "context": True}, {"type": kind, "text": GOAL}]
    body = {"model": "m", name: [{"role": "user", "content": content}], **fields}
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        answer = await post(proxy.url, body, path, **header)
        found = await post(proxy.url, body, f"/v1/context/plan?path={path}")
    ((context, goal),) = [message["content"] for message in upstream.requests[0].json()[name]]
    assert goal == {"type": kind, "text": GOAL}
    assert context.keys() == {"type", "text"}
    if size == len(LOG) and not header:
        assert LOG.startswith(context["text"].split("\n[Truncated]")[0])
        assert answer.headers["x-trimtab-edits"].startswith("truncated=1, ")
        assert [(edit["stage"], edit["index"]) for edit in found.json()["edits"]] == [("trimmed", 0)]
        counts = token_counts(answer)
        assert counts["original"] > 8_192 > counts["budget"] >= counts["sent"] > 6_000
    else:
        assert context["text"] == LOG[:size]


PROFILES = [("planner_input", 16_000 * 4), ("analysis", 10_000), ("replan", 500)]


@pytest.mark.parametrize(("profile", "chars"), PROFILES)
async def test_a_profile_compacts_a_single_message_and_leaves_its_last_paragraph(profile: str, chars: int) -> None:
    window = '[models."*"]\ncontext_size = 128000\nmax_output_tokens = 1024\n'
    body = {"model": "m", "messages": [{"role": "user", "content": f"{LOG}\n{GOAL}"}]}
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, window) as proxy:
        plain = await post(proxy.url, body)
        cut = await post(proxy.url, body, x_trimtab_profile=profile)
        again = await post(proxy.url, body, x_trimtab_profile=profile)
    whole, first, second = [request.json()["messages"][0]["content"] for request in upstream.requests]
    assert whole == f"{LOG}\n{GOAL}"
    assert first == second
    assert first.endswith(f"\n{GOAL}")
    assert "[Truncated]" in first
    assert len(first) <= chars
    assert plain.headers["x-trimtab-edits"].startswith("truncated=0")
    assert token_counts(cut)["sent"] <= min(16_000, token_counts(plain)["sent"])
    assert again.headers["x-trimtab-edits"].startswith("truncated=1")


async def test_bypass_observe_profiles_and_their_errors() -> None:
    body = {"model": "m", "messages": agent_run(30)}
    raw = msgspec.json.encode(body)
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        bypassed = await post(proxy.url, raw, x_trimtab_bypass="true")
        observed = await post(proxy.url, raw, x_trimtab_observe="true")
        profiled = await post(proxy.url, raw, x_trimtab_profile="replan")
        wrong = await post(proxy.url, raw, x_trimtab_profile="nope")
    assert [request.body == raw for request in upstream.requests] == [True, True, False]
    assert "x-trimtab-tokens" not in bypassed.headers
    assert "cleared=0" not in observed.headers["x-trimtab-edits"]
    assert "truncated=0" not in profiled.headers["x-trimtab-edits"]
    assert wrong.status == 400
    assert "replan" in wrong.json()["error"]["message"]


async def test_a_profiles_budget_never_refuses_what_the_model_takes_and_the_operators_does() -> None:
    question = {"role": "user", "content": "What follows? " * 400}
    body = {"model": "m", "messages": [*chat(20), question]}
    profile = "[profiles.tight]\nbudget = 300\n"
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream:
        async with running(upstream.base_url, WINDOW + profile) as proxy:
            sent = await post(proxy.url, body, x_trimtab_profile="tight")
        async with running(upstream.base_url, WINDOW + "budget = 300\n") as proxy:
            refused = await post(proxy.url, body)
    assert sent.status == 200
    assert [request.json()["messages"] for request in upstream.requests] == [[body["messages"][0], question]]
    counts = token_counts(sent)
    assert counts["original"] > counts["sent"] > counts["budget"] == 300
    assert refused.status == 400
    error = refused.json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert "of which 300 can be used for the input (the budget that the operator has set)" in error["message"]


@pytest.mark.parametrize("script", [json_reply(COMPLETION), sse_reply(b'{"id":"c","choices":[]}')])
async def test_what_was_only_observed_is_not_reported_as_applied(script: Script) -> None:
    edits = [{"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 1}}]
    body = {"model": "m", "messages": agent_run(4), "context_management": {"edits": edits}}
    async with ScriptedUpstream(script) as upstream, running(upstream.base_url, WINDOW) as proxy:
        observed = await post(proxy.url, body, x_trimtab_observe="true")
        applied = await post(proxy.url, body)
    assert "cleared=0" not in observed.headers["x-trimtab-edits"]
    assert [b"applied_edits" in answer.body for answer in (observed, applied)] == [False, True]


async def test_other_paths_and_methods_pass_through() -> None:
    models = {"object": "list", "data": []}
    cookies = [(b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")]
    async with (
        ScriptedUpstream(json_reply(models, headers=cookies)) as upstream,
        running(upstream.base_url) as proxy,
        aiohttp.ClientSession() as session,
    ):
        async with session.get(proxy.url + "/v1/models?limit=%20x") as answer:
            assert await answer.json() == models
            assert answer.headers.getall("set-cookie") == ["a=1", "b=2"]
        async with session.delete(proxy.url + "/v1/files/file-1") as answer:
            assert answer.status == 200
        async with session.post(proxy.url + "/v1/embeddings", data=b'{"input":"x"}') as answer:
            assert answer.status == 200
    asked = [(r.method, r.target, r.body) for r in upstream.requests]
    assert asked == [
        ("GET", "/v1/models?limit=%20x", b""),
        ("DELETE", "/v1/files/file-1", b""),
        ("POST", "/v1/embeddings", b'{"input":"x"}'),
    ]


async def test_client_keys_are_demanded_and_not_sent_on() -> None:
    import hashlib

    digest = hashlib.sha256(b"team-key").hexdigest()
    toml = f'api_key = "sk-upstream"\n[server]\nclient_keys = ["{digest}"]\n'
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, toml) as proxy:
        refused = await post(proxy.url, {"model": "m", "messages": chat(1)}, authorization="Bearer guess")
        served = await post(proxy.url, {"model": "m", "messages": chat(1)}, authorization="Bearer team-key")
        log = proxy.log.getvalue()
    assert (refused.status, refused.json()["error"]["code"]) == (401, "invalid_api_key")
    assert served.status == 200
    assert upstream.requests[0].header(b"authorization") == b"Bearer sk-upstream"
    assert "team-key" not in log
    assert "sk-upstream" not in log


async def test_a_record_is_left_for_every_request_and_holds_no_text() -> None:
    async with ScriptedUpstream(json_reply(COMPLETION)) as upstream, running(upstream.base_url, WINDOW) as proxy:
        await post(proxy.url, {"model": "m", "messages": [{"role": "user", "content": "a secret word"}]})
        await post(proxy.url, {"model": "m", "messages": agent_run(30)})
        await post(proxy.url, b"not json: a secret word")
        metrics = await proxy.metrics()
        lines = [msgspec.json.decode(line) for line in proxy.log.getvalue().splitlines()]
    assert [line["outcome"] for line in lines] == ["passed", "shaped", "client_error"]
    assert "secret" not in proxy.log.getvalue()
    assert 'trimtab_requests_total{model="m",outcome="shaped"} 1.0' in metrics
    assert 'trimtab_edits_total{model="m",stage="cleared"}' in metrics


USAGE = b'{"id":"c","choices":[],"usage":{"prompt_tokens":400,"completion_tokens":2,"total_tokens":402}}'


async def test_a_stream_is_asked_for_usage_until_the_factor_is_known_and_the_client_never_sees_it() -> None:
    events = [b'{"id":"c","choices":[{"index":0,"delta":{"content":"a"}}]}', USAGE]
    toml = '[limits]\ndiscover = false\nask_usage = "auto"\n' + WINDOW
    body = {"model": "m", "stream": True, "stream_options": {"x": 1}, "messages": chat(1)}
    async with ScriptedUpstream(sse_reply(*events)) as upstream, running(upstream.base_url, toml) as proxy:
        first = await post(proxy.url, body)
        asking = await post(proxy.url, {**body, "stream_options": {"include_usage": True}})
        for _ in range(8):
            last = await post(proxy.url, body)
        factor = proxy.parts.limits.factor("test", "m")
    sent = [request.json()["stream_options"] for request in upstream.requests]
    assert sent[0] == {"x": 1, "include_usage": True}
    assert sent[-1] == {"x": 1}
    assert b'"usage"' not in first.body
    assert USAGE in asking.body
    assert first.body.endswith(b"data: [DONE]\n\n")
    assert last.status == 200
    assert factor != 1.0


UNKNOWN = {
    "error": {"message": "Unrecognized request argument supplied: stream_options", "type": "invalid_request_error"}
}


async def test_an_upstream_that_cannot_be_asked_for_usage_is_called_as_the_client_would() -> None:
    def strict(received: Received) -> list[Step]:
        return json_reply(UNKNOWN, 400) if b"include_usage" in received.body else sse_reply(b'{"id":"c","choices":[]}')

    toml = '[limits]\ndiscover = false\nask_usage = "auto"\n' + WINDOW
    raw = msgspec.json.encode({"model": "m", "stream": True, "messages": chat(1)})
    async with ScriptedUpstream(strict) as upstream, running(upstream.base_url, toml) as proxy:
        answers = [await post(proxy.url, raw) for _ in range(2)]
        own = await post(
            proxy.url, {"model": "m", "stream": True, "messages": [], "stream_options": {"include_usage": True}}
        )
    assert [answer.status for answer in (*answers, own)] == [200, 200, 400]
    assert [received.body == raw for received in upstream.requests] == [False, True, True, False]


@pytest.mark.parametrize("error", [UNKNOWN, {"error": {"message": "no such model"}}], ids=["a field", "another reason"])
async def test_a_refusal_that_comes_again_without_the_field_passes_and_is_not_learned_from(error: Any) -> None:
    toml = '[limits]\ndiscover = false\nask_usage = "auto"\n' + WINDOW
    body = {"model": "m", "stream": True, "messages": chat(1)}
    async with ScriptedUpstream(json_reply(error, 400)) as upstream, running(upstream.base_url, toml) as proxy:
        answers = [await post(proxy.url, body) for _ in range(2)]
    assert [(answer.status, answer.json()) for answer in answers] == [(400, error)] * 2
    asked = [b"include_usage" in received.body for received in upstream.requests]
    assert asked == [True, False] * 2
