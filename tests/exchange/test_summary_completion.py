"""One call of a summary model, and what comes of its answer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.exchange.requests import calling
from tests.support.scripted import CLOSE, Script, json_reply, reply, sse_reply
from trimtab.errors import UpstreamError, UpstreamUnreachable
from trimtab.exchange.summary_completion import complete
from trimtab.summaries.completion import Completion, CompletionRequest

pytestmark = pytest.mark.anyio


def completion(**message: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": "stop"}]}


ASKED = CompletionRequest("m", (b'{"role":"system","content":"s"}', b'{"role":"user","content":"u"}'), 200, b"Bearer c")


async def test_a_summary_is_asked_for_like_any_completion() -> None:
    usage = {"prompt_tokens": 50, "completion_tokens": 9}
    async with calling(json_reply({**completion(content="short"), "usage": usage})) as (calls, _, server):
        answer = await complete(calls, lambda call: None, ASKED)
    sent = server.requests[0]
    assert sent.target == "/v1/chat/completions"
    assert sent.json() == {
        "model": "m",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        "max_tokens": 200,
        "stream": False,
    }
    assert sent.header(b"authorization") == b"Bearer c"
    assert answer == Completion("short", "stop", False, 50, 9)


async def test_a_model_that_refuses_max_tokens_gets_the_newer_field() -> None:
    async with calling(json_reply(completion(content="s"))) as (calls, _, server):
        await complete(calls, lambda call: None, msgspec.structs.replace(ASKED, model="gpt-5-mini"))
    assert (server.requests[0].json()["max_completion_tokens"], "max_tokens" in server.requests[0].json()) == (
        200,
        False,
    )


@pytest.mark.parametrize(("tools", "choice"), [(True, "none"), (False, None)])
async def test_an_appended_call_keeps_the_fields_and_may_call_no_tool(tools: bool, choice: str | None) -> None:
    fields = {"temperature": msgspec.Raw(b"0.70"), **({"tools": msgspec.Raw(b"[{}]")} if tools else {})}
    async with calling(json_reply(completion(content="s"))) as (calls, _, server):
        await complete(calls, lambda call: None, msgspec.structs.replace(ASKED, fields=fields))
    assert server.requests[0].json().get("tool_choice") == choice
    assert b'"temperature":0.70' in server.requests[0].body


ANSWERS: list[tuple[dict[str, Any], Completion]] = [
    (completion(content="s"), Completion("s")),
    (completion(content=None), Completion("")),
    (completion(), Completion("")),
    (completion(content="s", tool_calls=[]), Completion("s")),
    (completion(content=[{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "s"}]), Completion("s")),
    (completion(content="<think>\nI see.\n</think>s"), Completion("s")),
    (completion(content="I see.\n</think>s"), Completion("s")),
    (completion(content=" <think>I see, and see, and"), Completion("")),
    (completion(content="s, and `<think>x</think>` in a text"), Completion("s, and `<think>x</think>` in a text")),
    (completion(content=None, tool_calls=[{"id": "x"}]), Completion("", has_tool_call=True)),
    ({"choices": [{"message": {"content": "s"}, "finish_reason": "length"}]}, Completion("s", "length")),
    ({"choices": [{"message": {"content": "s"}}]}, Completion("s", None)),
    ({"usage": {"total_tokens": 9}, **completion(content="s")}, Completion("s")),
    ({"error": None, **completion(content="s")}, Completion("s")),
]


@pytest.mark.parametrize(("answer", "read"), ANSWERS)
async def test_a_completion_of_any_shape_is_read(answer: dict[str, Any], read: Completion) -> None:
    async with calling(json_reply(answer)) as (calls, _, _server):
        assert await complete(calls, lambda call: None, ASKED) == read


NONE: list[tuple[str, Script, type[UpstreamError]]] = [
    ("an error", json_reply({"error": {}}, 500), UpstreamError),
    ("a rate limit", json_reply({"error": {}}, 429), UpstreamError),
    ("no choice", json_reply({"choices": []}), UpstreamError),
    ("megabytes", json_reply(completion(content="s" * 2_000_000)), UpstreamError),
    ("very many values", json_reply({**completion(content="s"), "x": [0] * 200_000}), UpstreamError),
    ("no JSON", reply(200, b"<html>"), UpstreamError),
    ("another shape", json_reply({"choices": [{"message": {"content": 7}}]}), UpstreamError),
    ("an error beside a text", json_reply({"error": {"message": "no"}, **completion(content="s")}), UpstreamError),
    (
        "an error in its choice",
        json_reply({"choices": [{"message": {"content": "s"}, "error": {"code": 502}}]}),
        UpstreamError,
    ),
    ("a stream", sse_reply(b"{}"), UpstreamError),
    ("nobody there", [CLOSE], UpstreamUnreachable),
]


@pytest.mark.parametrize(("_", "script", "error"), NONE, ids=[row[0] for row in NONE])
async def test_anything_but_a_completion_is_an_error_of_the_upstream(
    _: str, script: Script, error: type[UpstreamError]
) -> None:
    async with calling(script) as (calls, _upstream, _server):
        with pytest.raises(error):
            await complete(calls, lambda call: None, ASKED)
