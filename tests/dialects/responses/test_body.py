"""Bodies of the Responses API: what is read of them, and what the server holds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from trimtab.dialects.responses import RESPONSES
from trimtab.wire.request import Unmanaged, Unreadable


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
