"""A request is read without being touched: any JSON gives a request or a clear error, and bytes come out as they
went in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.errors import InvalidRequest
from trimtab.wire.body import replace_lone_surrogates
from trimtab.wire.chat import decode, render
from trimtab.wire.request import Request, Unreadable

HELLO = b'{"role":"user","content":"hi"}'


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}).encode()


# -- reading -----------------------------------------------------------------------------------------------------

REFUSED: dict[str, bytes] = {
    "nothing": b"",
    "not JSON": b"hello",
    "cut off": b'{"model":"m","messages":[',
    "two values": b'{"messages":[]}{"messages":[]}',
    "a bare escape": rb'{"messages":[{"role":"user","content":"\q"}]}',
    "a control character": b'{"messages":["\x01"]}',
    "a trailing comma": b'{"messages":[],}',
    "form data": b"model=m&messages=hi",
}


@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED)
def test_what_is_not_json_is_the_clients_error(raw: bytes) -> None:
    with pytest.raises(InvalidRequest, match="not valid JSON") as caught:
        decode(raw)
    assert b"hi" not in caught.value.message.encode()


UNREADABLE: dict[str, bytes] = {
    "null": b"null",
    "a number": b"5",
    "a list": b"[]",
    "no messages": b'{"model":"m"}',
    "messages null": b'{"messages":null}',
    "messages an object": b'{"messages":{}}',
    "messages a text": b'{"messages":"hi"}',
    "NaN": b'{"messages":[],"temperature":NaN}',
    "UTF-16": '{"messages":[]}'.encode("utf-16"),
    "too deep": b'{"messages":[' + b"[" * 100_000 + b"]" * 100_000 + b"]}",
    "too deep elsewhere": b'{"messages":[],"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@pytest.mark.parametrize("raw", UNREADABLE.values(), ids=UNREADABLE)
def test_json_that_cannot_be_read_here_is_left_to_the_upstream(raw: bytes) -> None:
    with pytest.raises(Unreadable):
        decode(raw)


def test_a_byte_order_mark_is_ignored_and_sent() -> None:
    raw = b'\xef\xbb\xbf{"messages":[{"role":"user","content":"\\ud800"}],"model":"m"}'
    found = decode(raw)
    assert (found.body, found.model, len(found.messages)) == (raw, "m", 1)
    assert render(found, list(found.messages), {}).startswith(b'{"messages":[{')
    assert decode(raw.replace(b"\\ud800", b"x")).source == raw[3:].replace(b"\\ud800", b"x")


def test_a_plain_request() -> None:
    raw = body(stream=True, max_tokens=100, tools=[{"type": "function"}], stream_options={"include_usage": True})
    found = decode(raw)
    assert (found.model, found.stream, found.max_tokens) == ("m", True, 100)
    assert (found.has_tools, found.include_usage) == (True, True)
    assert found.body is raw
    assert [json.loads(bytes(m)) for m in found.messages] == [{"role": "user", "content": "hi"}]


READ: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing more": ({}, {"stream": False, "max_tokens": None, "has_tools": False, "context_management": None}),
    "nulls": (
        {"stream": None, "max_tokens": None, "tools": None, "stream_options": None, "context_management": None},
        {"stream": False, "max_tokens": None, "has_tools": False, "context_management": None},
    ),
    "both limits": ({"max_tokens": 5, "max_completion_tokens": 9}, {"max_tokens": 9}),
    "a limit of nothing": ({"max_tokens": 0}, {"max_tokens": None}),
    "a negative limit": ({"max_tokens": -1}, {"max_tokens": None}),
    "no tools": ({"tools": [], "functions": []}, {"has_tools": False, "extras": ()}),
    "functions": ({"functions": [{"name": "f"}]}, {"has_tools": True}),
    "a limit of a wrong type": ({"max_tokens": "many", "stream": True}, {"max_tokens": None, "stream": True}),
    "a limit with a fraction": ({"max_tokens": 10.5}, {"max_tokens": None}),
    "a limit beyond all": ({"max_tokens": 10**30}, {}),
    "a stream of a wrong type": ({"stream": "yes", "max_tokens": 7}, {"stream": False, "max_tokens": 7}),
    "a model of a wrong type": ({"model": 5, "max_tokens": 7}, {"model": "", "max_tokens": 7}),
    "options of a wrong type": ({"stream_options": [1], "stream": True}, {"include_usage": False, "stream": True}),
    "a wrong type beside tools": ({"max_tokens": "x", "tools": [{}]}, {"has_tools": True}),
    "usage not asked": ({"stream_options": {"include_usage": False}}, {"include_usage": False}),
}


@pytest.mark.parametrize(("fields", "expected"), READ.values(), ids=READ)
def test_fields(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    found = decode(body(**fields))
    assert {name: getattr(found, name) for name in expected} == expected


def test_everything_a_model_reads_beside_the_messages_is_an_extra() -> None:
    fields = {
        "tools": [{"type": "function"}],
        "functions": [{"name": "f"}],
        "response_format": {"type": "json_schema"},
        "tool_choice": "auto",
        "prediction": {"type": "content", "content": "x"},
    }
    found = decode(body(**fields, temperature=1))
    assert [json.loads(bytes(raw)) for raw in found.extras] == list(fields.values())


@pytest.mark.parametrize(
    "messages",
    [
        b'[null,{"role":"user","content":5},{"content":"x"},"str"]',
        b'[{"role":"user","content":""},{"role":"assistant","content":null}]',
        b'[{"role":"user","role":"assistant"}]',
        b'[{"role":"user","content":"\xff\xfe"}]',
        b'[{"n":1e999}]',
        b"[]",
    ],
)
def test_messages_are_not_checked(messages: bytes) -> None:
    raw = b'{"messages":' + messages + b"}"
    found = decode(raw)
    assert b"[" + b",".join(bytes(m) for m in found.messages) + b"]" == messages
    assert render(found, None, {}) == raw


def test_a_lone_surrogate_is_read_as_a_replacement_and_sent_as_it_came() -> None:
    raw = rb'{"model":"m","messages":[{"role":"user","content":"a \ud83d b \ud83d\ude00"}]}'
    found = decode(raw)
    assert found.body is raw
    assert json.loads(bytes(found.messages[0]))["content"] == "a \ufffd b \U0001f600"


SURROGATES = {
    rb"\ud83d": rb"\ufffd",
    rb"\ude00": rb"\ufffd",
    rb"\ud83d\ude00": rb"\ud83d\ude00",
    rb"\uD83D\uDE00": rb"\uD83D\uDE00",
    rb"\ud83d\ud83d\ude00": rb"\ufffd\ud83d\ude00",
    rb"\ude00\ud83d": rb"\ufffd\ufffd",
    rb"\\ud83d": rb"\\ud83d",
    rb"\\\ud83d": rb"\\\ufffd",
    rb"\ud7ff\ue000": rb"\ud7ff\ue000",
    rb"plain": rb"plain",
}


@pytest.mark.parametrize(("before", "after"), SURROGATES.items(), ids=[k.decode() for k in SURROGATES])
def test_lone_surrogates_are_replaced(before: bytes, after: bytes) -> None:
    assert replace_lone_surrogates(before) == after
    json.loads(b'"' + after + b'"').encode()  # the result can be written as UTF-8


# -- writing -----------------------------------------------------------------------------------------------------


def decoded(fields: bytes) -> Request:
    return decode(b'{"model":"m","messages":[' + HELLO + b"]," + fields + b"}")


VALUES = [
    b"1234567890123456789",
    b"123456789012345678901234567890",
    b"1e21",
    b"1.0",
    b"-0.0",
    b"1E+2",
    b"1e999",
    b'"\\u00e9\\/\\ud83d\\ude00"',
    b'{"b":1,"a":{"z":0.10}}',
    b"[1,2.50]",
    b'"' + "é天".encode() + b'"',
]


@pytest.mark.parametrize("value", VALUES)
def test_values_keep_their_bytes_when_others_change(value: bytes) -> None:
    request = decoded(b'"x_vendor":' + value)
    assert render(request, None, {}) == request.body
    assert b'"x_vendor":' + value in render(request, [HELLO, HELLO], {"max_tokens": 5})


def test_changes_keep_the_place_of_the_field_and_new_ones_come_last() -> None:
    request = decoded(b'"max_tokens":9,"n":1')
    assert render(request, [b"1", b"2"], {"max_tokens": 5, "stream_options": {"include_usage": True}}) == (
        b'{"model":"m","messages":[1,2],"max_tokens":5,"n":1,"stream_options":{"include_usage":true}}'
    )


def test_a_field_is_removed() -> None:
    assert render(decoded(b'"n":1,"x":2'), None, {"n": None, "not_there": None}) == (
        b'{"model":"m","messages":[' + HELLO + b'],"x":2}'
    )


def test_no_messages_at_all() -> None:
    assert render(decode(b'{"messages":[1]}'), [], {}) == b'{"messages":[]}'


# -- laws --------------------------------------------------------------------------------------------------------

_READ = ["model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "tools"]
_BESIDE = ["functions", "tool_choice", "response_format", "prediction", "context_management", "include_usage"]
NAMES = st.sampled_from([*_READ, *_BESIDE, "role", "content"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("\ud83d"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=3), inner, max_size=5),
    max_leaves=15,
)
REQUESTS = st.fixed_dictionaries(
    {"messages": st.lists(JSON, max_size=3)}, optional={"model": JSON, "stream": JSON}
).flatmap(lambda base: st.dictionaries(NAMES, JSON, max_size=4).map(lambda more: {**more, **base}))


@settings(max_examples=150, deadline=None)
@given(JSON | REQUESTS, st.booleans())
def test_any_json_gives_a_request_or_a_clear_error(value: Any, escaped: bool) -> None:
    raw = json.dumps(value, ensure_ascii=escaped).encode("utf-8", "surrogatepass")
    try:
        found = decode(raw)
    except (InvalidRequest, Unreadable):
        return
    assert found.body is raw
    assert len(found.messages) == len(value["messages"])
    again = decode(render(found, found.messages, {}))
    assert [bytes(m) for m in again.messages] == [bytes(m) for m in found.messages]
    assert (again.model, again.stream, again.max_tokens, again.extras) == (
        found.model,
        found.stream,
        found.max_tokens,
        found.extras,
    )


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60) | st.binary(max_size=30).map(lambda b: b'{"messages":[' + b + b"]}"))
def test_any_bytes_give_a_request_or_a_clear_error(raw: bytes) -> None:
    try:
        found = decode(raw)
    except (InvalidRequest, Unreadable):
        return
    assert found.body is raw


@settings(max_examples=150, deadline=None)
@given(REQUESTS)
def test_without_changes_the_body_is_the_same_json(value: dict[str, Any]) -> None:
    raw = json.dumps(value, separators=(",", ":")).encode()
    try:
        found = decode(raw)
    except Unreadable:
        return
    assert render(found, None, {}) == found.source
    assert found.source is raw or b"\\ud" in raw


def test_a_body_of_very_many_escapes_is_not_read() -> None:
    body = b'{"messages":[{"role":"user","content":"%b"}]}'
    decode(body % (b"\\n" * 1_000_000))
    with pytest.raises(Unreadable):
        decode(body % (b"\\n" * 4_000_001))


def test_fields_of_wrong_types_are_left_to_the_upstream_however_many_others_there_are() -> None:
    others = b",".join(b'"f%d":%d' % (i, i) for i in range(1_000))
    body = b'{"model":5,"stream":true,%b,"messages":[{}],"max_tokens":"x","stream":null,"messages":[{},{}]}' % others
    request = decode(body)
    assert (request.model, request.stream, request.max_tokens, len(request.messages)) == ("", False, None, 2)
