"""A field that this proxy adds is taken back where it does harm, and what it brings is for us alone."""

from __future__ import annotations

import pytest

from tests.support.chat import post
from tests.support.conversations import chat
from tests.support.running import running, settings
from tests.support.scripted import CLOSE, RESET, Received, ScriptedUpstream, Step, chunk, json_reply, reply, sse_reply
from tests.support.streams import BEGUN, END
from trimtab.exchange.include_usage import IncludeUsage, is_for_us

pytestmark = pytest.mark.anyio

ASKING = '[limits]\ndiscover = false\nask_usage = "always"\n'
TOKEN = b'{"id":"c","choices":[{"index":0,"delta":{"content":"a"}}]}'
USAGE = b'{"id":"c","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":1}}'
STREAM = {"model": "m", "stream": True, "messages": chat(1)}
EVENTS = [(b"content-type", b"text/event-stream")]

REFUSALS: dict[str, list[Step]] = {
    "a 400 that names it": json_reply({"error": {"message": "Unrecognized argument: stream_options"}}, 400),
    "a 400 in other words": json_reply({"error": {"message": "extra fields are not permitted"}}, 400),
    "a 422 without words": reply(422),
    "a 404": json_reply({"detail": "no"}, 404),
    "a 500": reply(500, b"Internal Server Error"),
    "a stream of nothing": reply(200, b"", EVENTS),
    "a stream of its end alone": reply(200, b"data: [DONE]\n\n", EVENTS),
    "a stream of its end alone, in chunks": sse_reply(),
    "an error in a stream": sse_reply(b'{"error":{"message":"Extra inputs are not permitted"}}'),
    "an error event": [BEGUN, chunk(b'event: error\ndata: {"message":"unknown field"}\n\n'), END],
    "an error in a 200": json_reply({"error": {"message": "unknown field"}}),
    "a connection that is closed": [CLOSE],
    "a connection that is reset": [RESET],
    "a stream that breaks off before its first event": [BEGUN, CLOSE],
    "nothing at all": reply(200, b""),
}


def asks(received: Received) -> bool:
    return b"include_usage" in received.body


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
async def test_what_fails_with_it_is_tried_once_without_it_and_remembered(refusal: list[Step]) -> None:
    async with (
        ScriptedUpstream(lambda r: refusal if asks(r) else sse_reply(TOKEN)) as upstream,
        running(settings(upstream.base_url, ASKING)) as proxy,
    ):
        answers = [await post(proxy.url, STREAM) for _ in range(2)]
    assert [(answer.status, TOKEN in answer.body) for answer in answers] == [(200, True)] * 2
    assert [asks(request) for request in upstream.requests] == [True, False, False]


@pytest.mark.parametrize("status", [401, 403, 429])
async def test_an_error_about_something_else_comes_as_it_is(status: int) -> None:
    async with (
        ScriptedUpstream(reply(status, b"no")) as upstream,
        running(settings(upstream.base_url, ASKING)) as proxy,
    ):
        answer = await post(proxy.url, STREAM)
    assert (answer.status, answer.body, len(upstream.requests)) == (status, b"no", 1)


async def test_where_it_was_taken_once_only_an_error_that_names_it_is_tried_again() -> None:
    scripts = [sse_reply(TOKEN, USAGE), reply(500, b"busy"), REFUSALS["a 400 that names it"], sse_reply(TOKEN)]
    async with ScriptedUpstream(*scripts) as upstream, running(settings(upstream.base_url, ASKING)) as proxy:
        answers = [await post(proxy.url, STREAM) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 500, 200]
    assert [asks(request) for request in upstream.requests] == [True, True, True, False]


async def test_what_one_model_refuses_another_may_take() -> None:
    """Behind one gateway are servers of many kinds."""

    def gateway(received: Received) -> list[Step]:
        strict = asks(received) and received.json()["model"] == "strict"
        return reply(422) if strict else sse_reply(TOKEN, *([USAGE] if asks(received) else []))

    async with ScriptedUpstream(gateway) as upstream, running(settings(upstream.base_url, ASKING)) as proxy:
        answers = [await post(proxy.url, {**STREAM, "model": model}) for model in ("m", "strict", "strict", "m")]
    assert all(TOKEN in answer.body for answer in answers)
    assert [asks(request) for request in upstream.requests] == [True, True, False, False, True]


async def test_an_upstream_that_cannot_be_reached_is_not_called_again() -> None:
    async with running(settings("http://127.0.0.1:9", ASKING)) as proxy:
        answer = await post(proxy.url, STREAM)
    assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_unreachable")


def test_the_models_that_are_remembered_are_bounded() -> None:
    known = IncludeUsage()
    for n in range(1_000):
        known.learn("a", f"m{n}", was_set=True)
    assert (known.takes("a", "m0"), known.takes("a", "m999")) == (False, True)


async def test_where_it_fails_without_it_too_the_client_gets_that_answer() -> None:
    async with (
        ScriptedUpstream(reply(500, b"with"), reply(500, b"without"), reply(200, b"", EVENTS)) as upstream,
        running(settings(upstream.base_url, ASKING)) as proxy,
    ):
        answers = [await post(proxy.url, STREAM) for _ in range(2)]
    assert [(answer.status, answer.body) for answer in answers] == [(500, b"without"), (200, b"")]
    assert [asks(request) for request in upstream.requests] == [True, False, True, False]


SHAPES = {
    "an empty list": (USAGE, True),
    "null": (USAGE.replace(b"[]", b"null"), True),
    "no choices": (USAGE.replace(b'"choices":[],', b""), True),
    "of llama.cpp": (USAGE.replace(b'"id"', b'"timings":{"prompt_n":7},"id"'), True),
    "with null beside it": (USAGE.replace(b'"id"', b'"citations":null,"id"'), True),
    "with its cost": (USAGE.replace(b"}}", b',"cost":0.001}}'), False),
    "with citations": (USAGE.replace(b'"id"', b'"citations":["a"],"id"'), False),
    "with a choice": (USAGE.replace(b"[]", b'[{"index":0,"delta":{}}]'), False),
    "null usage": (b'{"id":"c","choices":[],"usage":null}', False),
    "a filter": (b'{"choices":[],"prompt_filter_results":[]}', False),
}


@pytest.mark.parametrize(("event", "ours"), SHAPES.values(), ids=SHAPES)
async def test_what_it_brings_never_reaches_the_client_and_the_rest_always_does(event: bytes, ours: bool) -> None:
    async with (
        ScriptedUpstream(sse_reply(TOKEN, event)) as upstream,
        running(settings(upstream.base_url, ASKING)) as proxy,
    ):
        answer = await post(proxy.url, STREAM)
    assert asks(upstream.requests[0])
    assert (event not in answer.body) is ours is is_for_us(event)
    assert TOKEN in answer.body


async def test_an_upstream_that_reports_its_usage_unasked_is_not_asked() -> None:
    known = IncludeUsage()
    known.learn("b", was_set=True, reported=True)
    known.learn("c", was_set=False, reported=True)
    known.learn("d", was_set=False)
    assert [known.may_set(upstream) for upstream in "abcd"] == [True, True, False, True]
