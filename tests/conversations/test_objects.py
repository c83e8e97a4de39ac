"""Items in the form that the API shows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from trimtab.conversations.entries import Header, Held, Record
from trimtab.conversations.objects import conversation, listing, metadata_of, page_of, response, shown
from trimtab.errors import InvalidRequest, NotStored


def held(value: Any, **more: Any) -> Held:
    return Held("id_1", msgspec.json.encode(value), **more)


SHOWN = [
    ({"role": "user", "content": "hi"}, {"role": "user", "content": [{"type": "input_text", "text": "hi"}]}),
    (
        {"role": "assistant", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "hi"}]},
    ),
    (
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}}]},
        {"role": "user", "content": [{"type": "input_image", "detail": "low", "image_url": "data:x"}]},
    ),
    (
        {"role": "user", "content": [{"type": "file", "file": {"file_id": "file_1"}}]},
        {"role": "user", "content": [{"type": "input_file", "file_id": "file_1"}]},
    ),
    ({"role": "assistant", "content": None}, {"role": "assistant", "content": []}),
]


@pytest.mark.parametrize(("stored", "expected"), SHOWN)
def test_messages_are_shown_in_their_full_form(stored: Any, expected: Any) -> None:
    assert shown(held(stored)) == {"id": "id_1", "type": "message", "status": "completed", **expected}


def test_other_items_are_shown_as_they_are() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}
    assert shown(held(call)) == {**call, "id": "id_1"}
    result = shown(held({"role": "tool", "tool_call_id": "c1", "content": "x"}))
    assert (result["type"], result["call_id"], result["output"]) == ("function_call_output", "c1", "x")
    assert shown(held("hi"))["content"] == [{"type": "input_text", "text": "hi"}]


def test_an_item_of_a_broken_answer_is_incomplete() -> None:
    assert shown(held({"role": "assistant", "content": "So f"}, made=True, partial=True))["status"] == "incomplete"


def test_a_page_follows_the_item_it_names() -> None:
    items = [Held(str(n), b"{}") for n in range(5)]
    first = listing(items, page_of({"limit": "2"}))
    assert ([item["id"] for item in first["data"]], first["last_id"], first["has_more"]) == (["4", "3"], "3", True)
    last = listing(items, page_of({"after": "1"}))
    assert ([item["id"] for item in last["data"]], last["has_more"]) == (["0"], False)
    assert listing([], page_of({}))["first_id"] is None
    with pytest.raises(NotStored):
        listing(items, page_of({"after": "x"}))


@pytest.mark.parametrize("query", [{"limit": "0"}, {"limit": "101"}, {"limit": "-1"}, {"order": "x"}])
def test_a_page_that_cannot_be_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        page_of(query)


def test_a_response_has_its_output_and_its_conversation_again() -> None:
    record = Record("c:conv_1", 2, b'{"id":"resp_1","store":false}')
    found = response(record, [held({"type": "message"})])
    assert found["store"] is True
    assert found["conversation"] == {"id": "conv_1"}
    assert bytes(found["output"][0]) == b'{"type":"message"}'


def test_metadata_is_a_few_texts() -> None:
    assert metadata_of(None) == b"{}"
    assert msgspec.json.encode(conversation("conv_1", Header("chat", 5, metadata_of({"a": "b"})))) == (
        b'{"id":"conv_1","object":"conversation","created_at":5,"metadata":{"a":"b"}}'
    )
    for bad in (5, [], {"a": 1}, {str(n): "x" for n in range(17)}):
        with pytest.raises(InvalidRequest):
            metadata_of(bad)
