"""Responses: what a request asks of the store, the stateless request made of it, and what a stream adds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from trimtab.conversations.entries import Held
from trimtab.conversations.responses import ResponsesCollector, asked, id_of, stateless
from trimtab.errors import InvalidRequest


def body(**fields: Any) -> bytes:
    return msgspec.json.encode({"model": "m", "input": "hi", **fields})


@pytest.mark.parametrize(
    ("fields", "stores", "relies"),
    [
        ({}, True, False),
        ({"store": True}, True, True),
        ({"store": None}, True, False),
        ({"previous_response_id": "resp_1"}, True, True),
        ({"previous_response_id": "resp_1", "store": False}, False, True),
        ({"conversation": "conv_1", "store": False}, True, True),
        ({"conversation": {"id": "conv_1"}}, True, True),
    ],
)
def test_what_a_request_asks(fields: dict[str, Any], stores: bool, relies: bool) -> None:
    request = asked(body(**fields))
    assert request is not None
    assert (request.stores, request.relies) == (stores, relies)


def test_without_the_default_only_what_asks_is_stored() -> None:
    assert asked(body(), default=False) is None
    for fields in ({"store": True}, {"previous_response_id": "resp_1"}, {"conversation": "conv_1"}):
        request = asked(body(**fields), default=False)
        assert request is not None
        assert request.stores


@pytest.mark.parametrize(
    "raw", [body(store=False), body(background=True), body(input=5), b"", b"{", b"[]", b"\xff", b"[" * 100_000]
)
def test_what_asks_nothing_is_left_alone(raw: bytes) -> None:
    assert asked(raw) is None


def test_two_histories_at_once_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="Mutually exclusive"):
        asked(body(previous_response_id="resp_1", conversation="conv_1"))


USER = b'{"role":"user","content":"one"}'
MADE = b'{"type":"message","id":"msg_1","role":"assistant","content":[]}'
UNREADABLE = b'{"type":"reasoning","id":"rs_1","summary":[]}'
READABLE = b'{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"gAAA"}'
CALL = b'{"type":"function_call","call_id":"c1","name":"read","arguments":"{}"}'
RESULT = b'{"type":"function_call_output","call_id":"c1","output":"x"}'
HI = b'{"type":"message","role":"user","content":"hi"}'


def sent(before: list[Held], **fields: Any) -> bytes:
    request = asked(body(previous_response_id="resp_1", **fields))
    assert request is not None
    return stateless(request, before)


def test_the_history_stands_before_the_input() -> None:
    found = sent([Held("1", USER), Held("2", MADE, True)])
    assert found == b'{"model":"m","input":[%b],"store":false}' % b",".join([USER, MADE, HI])


def test_a_request_without_history_keeps_its_input() -> None:
    request = asked(b'{"model":"m", "input" : "caf\\u00e9", "store":true}')
    assert request is not None
    assert stateless(request, []) == b'{"model":"m","input":"caf\\u00e9","store":false}'


def test_reasoning_that_only_another_server_can_read_is_left_out() -> None:
    found = sent([Held("1", UNREADABLE, True), Held("2", READABLE, True), Held("3", MADE, True)])
    assert UNREADABLE not in found
    assert READABLE in found


def test_a_call_of_an_answer_that_broke_off_stays_where_its_result_follows() -> None:
    call = Held("1", CALL, True, True)
    assert CALL not in sent([call])
    assert CALL in sent([call], input=[msgspec.Raw(RESULT)])
    assert CALL in sent([call, Held("2", RESULT)])
    assert CALL in sent([Held("1", CALL, True)])


def test_an_item_has_its_own_id_or_one_of_its_kind() -> None:
    assert id_of(MADE) == "msg_1"
    assert [id_of(raw).partition("_")[0] for raw in (USER, CALL, RESULT, b"5")] == ["msg", "fc", "item", "msg"]


# -- what a stream adds --------------------------------------------------------------------------------------------

RESPONSE = {"id": "resp_1", "object": "response", "status": "completed", "output": [], "model": "m"}


def event(kind: str, **fields: Any) -> bytes:
    return msgspec.json.encode({"type": kind, **fields})


CREATED = event("response.created", response={**RESPONSE, "status": "in_progress"})
ADDED = event("response.output_item.added", output_index=1, item={"id": "msg_1", "status": "in_progress"})
DELTAS = [event("response.output_text.delta", output_index=1, delta=text) for text in ("So ", "far")]
DONE = event("response.output_item.done", output_index=0, item=msgspec.Raw(READABLE))


def fed(*events: bytes) -> tuple[ResponsesCollector, bool]:
    collector = ResponsesCollector()
    ended = [collector.feed(data) for data in events]
    return collector, ended[-1]


def test_a_stream_that_ends_gives_the_items_of_its_response() -> None:
    completed = event("response.completed", response={**RESPONSE, "output": [msgspec.Raw(MADE)]})
    collector, ended = fed(CREATED, DONE, ADDED, *DELTAS, completed)
    answer = collector.answer()
    assert ended
    assert (answer.items, answer.whole, answer.id) == ([MADE], True, "resp_1")
    assert "output" not in msgspec.json.decode(answer.response)


def test_items_that_are_done_stand_in_for_a_response_without_any() -> None:
    collector, _ = fed(CREATED, DONE, event("response.completed", response=RESPONSE))
    assert collector.answer().items == [READABLE]


def test_of_a_stream_that_breaks_off_is_kept_what_came_and_marked() -> None:
    collector, ended = fed(CREATED, DONE, ADDED, *DELTAS)
    answer = collector.answer()
    assert not ended
    assert not answer.whole
    reasoning, message = map(msgspec.json.decode, answer.items)
    assert reasoning["id"] == "rs_2"
    assert (message["id"], message["status"], message["content"][0]["text"]) == ("msg_1", "incomplete", "So far")
    assert msgspec.json.decode(answer.response)["status"] == "incomplete"


def test_of_a_stream_that_only_began_nothing_is_kept() -> None:
    assert fed(CREATED, ADDED)[0].answer().items == []


@pytest.mark.parametrize(
    "answer",
    [
        {**RESPONSE, "status": "failed", "output": []},
        {**RESPONSE, "error": {"code": "server_error"}, "output": []},
        {"error": {"message": "no worker"}},
        {"detail": "no worker"},
        {"choices": [{"message": {"role": "assistant", "content": "of another API"}}]},
    ],
)
def test_what_is_no_response_that_succeeded_is_not_kept(answer: object) -> None:
    collector = ResponsesCollector()
    collector.read(msgspec.json.encode(answer))
    assert (collector.answer().whole, collector.answer().items) == (False, [])


def test_what_is_no_event_adds_nothing() -> None:
    odd = [b"[DONE]", b"null", b"5", b'{"type":5}', b"\xff", b'{"type":"response.output_text.delta"}', b"[" * 100_000]
    answer = fed(*odd)[0].answer()
    assert (answer.items, answer.whole, answer.id) == ([], False, "")
