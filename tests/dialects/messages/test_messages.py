"""The Messages API: what its answers, events and errors say, and how its output is limited."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.dialects.turns import answer, result, text, thought, use, user
from trimtab.dialects.messages import MESSAGES
from trimtab.errors import (
    BodyTooLarge,
    ConversationTooLong,
    InvalidRequest,
    Overloaded,
    TrimtabError,
    Unauthorized,
    UnknownModel,
    UpstreamTimeout,
)
from trimtab.wire.usage import Usage


def body(**fields: Any) -> bytes:
    return msgspec.json.encode({"model": "m", "max_tokens": 4_000, "messages": [], **fields})


@pytest.mark.parametrize(
    ("fields", "tokens", "expected"),
    [
        ({}, 900, {"max_tokens": 900}),
        ({}, 5_000, {}),
        ({"thinking": {"type": "adaptive"}}, 900, {"max_tokens": 900}),
        ({"thinking": {"type": "enabled", "budget_tokens": 800}}, 900, {"max_tokens": 900}),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 3_999}},
            3_000,
            {"max_tokens": 3_000, "thinking": {"type": "enabled", "budget_tokens": 1_500}},
        ),
        ({"thinking": {"type": "enabled", "budget_tokens": 3_999}}, 1_500, {}),
    ],
)
def test_the_output_stays_above_its_thinking(fields: Any, tokens: int, expected: Any) -> None:
    assert MESSAGES.capped(MESSAGES.decode(body(**fields)), tokens) == expected


# -- answers -----------------------------------------------------------------------------------------------------

START = {"input_tokens": 10, "cache_read_input_tokens": 70, "cache_creation_input_tokens": 20, "output_tokens": 1}


def test_usage_is_put_together_over_the_events() -> None:
    began = MESSAGES.usage(msgspec.json.encode({"type": "message_start", "message": {"usage": START}}), None)
    assert began == Usage(100, 1, 70)
    ended = MESSAGES.usage(b'{"type":"message_delta","usage":{"output_tokens":44}}', began)
    assert ended == Usage(100, 44, 70)
    whole = MESSAGES.usage(msgspec.json.encode({"type": "message", "usage": {**START, "output_tokens": 44}}), None)
    assert whole == ended


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"type":"message_start","message":{}}', True),
        (b'{"type": "ping"}', True),
        (b'{"type":"content_block_start"}', False),
        (b'{"type":"error","error":{}}', False),
    ],
)
def test_events_that_say_nothing(data: bytes, expected: bool) -> None:
    assert MESSAGES.says_nothing(data) is expected


def too_long(**detail: Any) -> ConversationTooLong:
    return ConversationTooLong("This conversation is too long for the model.", param="messages", detail=detail)


def error_of(error: TrimtabError) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(MESSAGES.envelope(error, "req-1"))
    assert (found["type"], found["request_id"]) == ("error", "req-1")
    return found["error"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        ({"tokens": {"estimated": 900, "limit": 500}}, "prompt is too long: 900 tokens > 500 maximum. This conv"),
        ({"tokens": {"estimated": 400, "limit": 500}}, "prompt is too long: 501 tokens > 500 maximum. This conv"),
        ({"tokens": {"estimated": 400, "limit": 500}, "reported": 700}, "prompt is too long: 700 tokens > 500 max"),
        ({}, "This conversation is too long"),
    ],
)
def test_an_overflow_begins_with_the_words_that_claude_code_knows(detail: dict[str, Any], words: str) -> None:
    found = error_of(too_long(**detail))
    assert found["type"] == "invalid_request_error"
    assert found["message"].startswith(words)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (InvalidRequest("x"), "invalid_request_error"),
        (Unauthorized("x"), "authentication_error"),
        (UnknownModel("x"), "not_found_error"),
        (BodyTooLarge("x"), "request_too_large"),
        (Overloaded("x"), "overloaded_error"),
        (UpstreamTimeout("x"), "api_error"),
    ],
)
def test_kinds_of_errors(error: TrimtabError, kind: str) -> None:
    assert error_of(error)["type"] == kind


def test_an_error_in_a_stream_has_a_name() -> None:
    assert MESSAGES.event(Overloaded("x")).startswith(b'event: error\ndata: {"type":"error"')


def test_for_a_summary_an_element_reads_like_a_message() -> None:
    elements = [user("Task."), answer(thought(1), "Look.", use(1)), msgspec.json.encode(result(1, "found"))]
    read = [msgspec.json.decode(MESSAGES.format.as_chat(raw)) for raw in elements]
    assert [found["role"] for found in read] == ["user", "assistant", "tool"]
    assert read[1]["content"] == [text("Look.")]
    assert read[2]["tool_call_id"] == read[1]["tool_calls"][0]["id"]
