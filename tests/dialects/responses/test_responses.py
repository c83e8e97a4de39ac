"""The Responses API: its bodies, and what its answers, events and errors say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from trimtab.dialects.responses import RESPONSES
from trimtab.errors import BodyTooLarge, ConversationTooLong
from trimtab.wire.request import Unmanaged, Unreadable
from trimtab.wire.usage import Usage

# -- reading -----------------------------------------------------------------------------------------------------


def body(**fields: Any) -> bytes:
    return msgspec.json.encode({"model": "m", "input": [{"role": "user", "content": "hi"}], **fields})


@pytest.mark.parametrize("held", ["previous_response_id", "conversation", "prompt"])
def test_what_the_server_holds_is_not_managed(held: str) -> None:
    with pytest.raises(Unmanaged, match=held):
        RESPONSES.decode(body(**{held: {"id": "x_1234"}}))
    assert RESPONSES.decode(body(**{held: None})).model == "m"


def test_a_reference_to_an_item_is_not_managed() -> None:
    with pytest.raises(Unmanaged, match="item_reference"):
        RESPONSES.decode(body(input=[{"type": "item_reference", "id": "msg_1"}]))
    assert RESPONSES.decode(body(input=[{"role": "user", "content": "an item_reference"}])).messages


def test_the_fields_beside_the_items() -> None:
    request = RESPONSES.decode(
        body(instructions="Be brief.", tools=[{"type": "function", "name": "f"}], max_output_tokens=900, stream=True)
    )
    assert (request.max_tokens, request.stream, request.has_tools, request.include_usage) == (900, True, True, True)
    assert [bytes(raw) for raw in request.extras] == [b'"Be brief."', b'[{"type":"function","name":"f"}]']
    assert RESPONSES.capped(request, 500) == {"max_output_tokens": 500}
    assert RESPONSES.capped(request, 1_000) == {}


def test_an_input_of_one_text_is_one_user_message() -> None:
    request = RESPONSES.decode(body(input="Hello"))
    assert [RESPONSES.format.view(raw).role for raw in request.messages] == ["user"]


@pytest.mark.parametrize("given", [{"input": 7}, {"input": None}])
def test_another_input_is_unreadable(given: dict[str, Any]) -> None:
    with pytest.raises(Unreadable):
        RESPONSES.decode(body(**given))


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
