"""What is known of a message: its role, its sizes, its place in a tool pair; for any bytes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from tests.context.histories import histories
from tests.support.messages import assistant, calls, msg, prose, result, user
from trimtab.context.apply.rewrite import rewrite
from trimtab.context.estimate.tokens import MESSAGE_OVERHEAD, text_tokens
from trimtab.context.read.texts import text_of
from trimtab.context.read.views import Call, asked, digest, view
from trimtab.context.texts import PLACEHOLDER

ROLES: dict[bytes, tuple[str, str]] = {
    b'{"role": "user", "content": "x"}': ("user", "text"),
    b'{"role": "developer", "content": "x"}': ("developer", "text"),
    b'{"role": "critic", "content": "x"}': ("critic", "text"),
    b'{"role": "user", "content": []}': ("user", "parts"),
    b'{"role": "assistant", "content": null}': ("assistant", "none"),
    b'{"role": "assistant"}': ("assistant", "none"),
    b'{"role": "user", "content": 5}': ("user", "opaque"),
    b'{"role": "system", "content": {"text": "x"}}': ("system", "opaque"),
    b'{"role": "user", "content": [{"n": 1e999}]}': ("user", "opaque"),
    b'{"role": "user", "content": "\xff"}': ("user", "opaque"),
    b'{"role": 5}': ("", "opaque"),
    b'{"content": "x"}': ("", "opaque"),
    b"null": ("", "opaque"),
    b'"text"': ("", "opaque"),
    b"[1]": ("", "opaque"),
    b"": ("", "opaque"),
    b'{"role": "user", "content": "lone \\ud83d"}': ("", "opaque"),
    b'{"role": "user", "content": ' + b"[" * 100_000: ("", "opaque"),
}


@pytest.mark.parametrize(("raw", "expected"), ROLES.items(), ids=[raw[:40].decode("latin-1") for raw in ROLES])
def test_role_and_shape(raw: bytes, expected: tuple[str, str]) -> None:
    found = view(raw)
    assert (found.role, found.shape) == expected
    assert found.tokens >= MESSAGE_OVERHEAD


def test_sizes_of_a_text_message() -> None:
    found = view(user("Hello, how are you?"))
    assert found.tokens == text_tokens("Hello, how are you?") + MESSAGE_OVERHEAD
    assert (found.text_tokens, found.chars) == (text_tokens("Hello, how are you?"), 19)


def test_of_a_key_that_occurs_twice_the_last_counts() -> None:
    assert view(b'{"role":"user","content":"short","content":"a longer text"}').chars == 13


def test_text_parts_are_summed_and_others_cost_apart() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.invalid/a.png"}}
    found = view(user([{"type": "text", "text": "abc"}, image, {"type": "text", "text": "de"}]))
    assert found.chars == 5
    assert found.tokens > found.text_tokens + MESSAGE_OVERHEAD


PARTS: list[tuple[Any, str | None]] = [
    ({"type": "text", "text": "x"}, "x"),
    ({"type": "input_text", "text": "x"}, "x"),
    ({"type": "text", "text": None}, None),
    ({"type": "text"}, None),
    ({"type": "image_url", "text": "x"}, None),
    (None, None),
    ("x", None),
]


@pytest.mark.parametrize(("part", "expected"), PARTS)
def test_text_of_a_part(part: Any, expected: str | None) -> None:
    assert text_of(part) == expected


def test_calls_and_their_arguments_are_counted() -> None:
    arguments = json.dumps({"content": prose(40_000)})
    found = view(calls("w", name="write_file", arguments=arguments))
    assert found.calls == (Call("w", "write_file", asked("write_file", arguments)),)
    assert found.call_tokens == text_tokens(arguments)
    assert found.tokens > found.call_tokens


DECLARED: dict[bytes, tuple[Call, ...]] = {
    b'{"role":"assistant","function_call":{"name":"f","arguments":"{}"}}': (Call("", "f"),),
    b'{"role":"assistant","tool_calls":[{"id":"a","custom":{"name":"sh","input":"ls"}}]}': (
        Call("a", "sh", asked("sh", "ls")),
    ),
    b'{"role":"assistant","tool_calls":[{"id":null,"function":{"name":null}}]}': (Call("", ""),),
    b'{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":{"x":1}}}]}': (
        Call("a", "f", asked("f", b'{"x":1}')),
    ),
    b'{"role":"assistant","content":7,"tool_calls":[{"id":"a"},null,{"id":3}]}': (Call("a", ""), Call("3", "")),
    b'{"role":"assistant","tool_calls":[{"id":1,"function":{"name":"f"}},{"function":{"name":"g"}}]}': (
        Call("1", "f"),
        Call("", "g"),
    ),
    b'{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f"}}],"function_call":{}}': (Call("a", "f"),),
    b'{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f"}}],"function_call":{"name":"g"}}': (
        Call("a", "f"),
        Call("", "g"),
    ),
    b'{"role":"assistant","tool_calls":[]}': (),
    b'{"role":"assistant","tool_calls":null}': (),
}


@pytest.mark.parametrize(("raw", "expected"), DECLARED.items(), ids=[raw[:70].decode() for raw in DECLARED])
def test_what_is_declared(raw: bytes, expected: tuple[Call, ...]) -> None:
    assert view(raw).calls == expected


def test_the_same_call_asks_the_same() -> None:
    asks = {asked("read", '{"path": "a"}'), asked("read", '{"path": "b"}'), asked("stat", '{"path": "a"}')}
    assert len(asks) == 3
    assert asked("read", '{"path": "a"}') in asks
    assert {asked("more", given) for given in (None, "", "{}", b"{}", {})} == {0}


ANSWERS: dict[bytes, str | None] = {
    result("a"): "a",
    b'{"role":"tool","content":"x"}': "",
    b'{"role":"tool","content":7,"tool_call_id":"a"}': "a",
    b'{"role":"tool","content":"x","tool_call_id":7}': "7",
    b'{"role":"tool","content":"x","tool_call_id":0}': "0",
    b'{"role":"tool","content":"x","tool_call_id":null}': "",
    b'{"role":"function","name":"f","content":"x"}': "",
    b'{"role":"user","content":"x","tool_call_id":"a"}': None,
}


@pytest.mark.parametrize(("raw", "expected"), ANSWERS.items(), ids=[raw[:60].decode() for raw in ANSWERS])
def test_what_is_answered(raw: bytes, expected: str | None) -> None:
    assert view(raw).answers == expected


def test_reasoning_counts_once_though_two_fields_hold_it() -> None:
    once = view(assistant("x", reasoning=prose(900)))
    twice = view(assistant("x", reasoning=prose(900), reasoning_details=[{"text": prose(900)}]))
    alone = view(assistant("x", reasoning_details=[{"text": prose(900)}]))
    assert once.tokens == twice.tokens
    assert alone.tokens > view(assistant("x")).tokens + 100


def test_name_and_refusal_count() -> None:
    assert view(user("x", name="alice")).tokens > view(user("x")).tokens
    assert view(assistant(None, refusal="I cannot.")).tokens > view(assistant(None)).tokens


@pytest.mark.parametrize(
    ("mark", "expected"), [(True, True), (False, False), (1, False), ("true", False), (None, False)]
)
def test_pinned_is_true_and_nothing_else(mark: Any, expected: bool) -> None:
    found = view(user("x", pinned=mark))
    assert (found.pinned, found.has_mark) == (expected, True)
    assert not view(user("x")).has_mark


CLEARABLE = [
    result("a", prose(2_000)),
    result("a", [{"type": "text", "text": prose(500)}, {"type": "image_url", "image_url": {"url": "x"}}], name="n"),
    msg("function", prose(500), name="f"),
    result("a", prose(500), reasoning="why not"),
    result("a", [{"type": "text", "text": prose(500), "cache_control": {"type": "ephemeral"}}]),
]


@pytest.mark.parametrize("raw", CLEARABLE)
def test_the_size_once_cleared_is_the_size_of_what_is_then_made(raw: bytes) -> None:
    cleared = rewrite(raw, "cleared", 0)
    assert PLACEHOLDER in cleared.decode()
    assert view(raw).cleared_tokens == view(cleared).tokens


@settings(max_examples=80, deadline=None)
@given(histories)
def test_any_message_has_a_view(raws: list[bytes]) -> None:
    for raw in raws:
        found = view(raw)
        assert found.tokens >= MESSAGE_OVERHEAD
        assert found.tokens >= found.text_tokens + found.call_tokens
        assert found.shape != "opaque" or (found.cleared_tokens == found.tokens and not found.chars)


# -- digests --------------------------------------------------------------------------------------------------------


def test_the_same_bytes_have_the_same_digest_as_bytes_and_as_a_slice_of_a_body() -> None:
    body = b'[{"role":"user"},{"role":"tool"}]'
    first, second = msgspec.json.decode(body, type=list[msgspec.Raw])
    assert digest(first) == digest(b'{"role":"user"}')
    assert digest(first) != digest(second)


def test_a_digest_tells_nothing_of_a_long_text() -> None:
    assert b"secret" not in msgspec.json.encode(digest(b"secret " * 1000))


def test_a_message_of_unknown_form_is_read_for_marks_too() -> None:
    parts = [{"type": "text", "text": "x", "context": True}]
    odd = view(user(parts, name=5))
    assert (odd.shape, odd.has_mark) == ("opaque", True)
    assert not view(b'{"role": "user", "name": 5, "content": [{"context": ' + b"[" * 3_000).has_mark
