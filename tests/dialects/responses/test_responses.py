"""The Responses API: what its answers, events and errors say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from trimtab.dialects.responses import RESPONSES
from trimtab.errors import BodyTooLarge, ConversationTooLong
from trimtab.wire.usage import Usage

# -- answers -----------------------------------------------------------------------------------------------------

USAGE = {"input_tokens": 90, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 40}}


@pytest.mark.parametrize("answer", [{"usage": USAGE}, {"type": "response.completed", "response": {"usage": USAGE}}])
def test_usage(answer: dict[str, Any]) -> None:
    assert RESPONSES.usage(msgspec.json.encode(answer), None) == Usage(90, 7, 40)


@pytest.mark.parametrize("data", [b'{"usage":null}', b'{"response":{"usage":null}}', b"{", b'{"usage":{"a":1}}'])
def test_no_usage(data: bytes) -> None:
    assert RESPONSES.usage(data, None) is None


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"type":"response.created","response":{}}', True),
        (b'{"sequence_number":1,"type":"response.in_progress"}', True),
        (b'{"type":"response.output_text.delta"}', False),
        (b'{"type":["response.created"]}', False),
        (b"[DONE]", False),
    ],
)
def test_events_that_say_nothing(data: bytes, expected: bool) -> None:
    assert RESPONSES.says_nothing(data) is expected


def test_an_error_in_a_stream_is_nested() -> None:
    name, data, *_ = RESPONSES.event(ConversationTooLong("Too long.", param="input")).split(b"\n")
    assert name == b"event: error"
    found = msgspec.json.decode(data.removeprefix(b"data: "))
    assert found["type"] == "error"
    assert found["error"]["code"] == "context_length_exceeded"


def test_codex_never_sees_a_413() -> None:
    assert RESPONSES.status(BodyTooLarge("Too large.")) == 400
    assert RESPONSES.status(ConversationTooLong("Too long.")) == 400
