"""The only code that makes new message bytes: what it names changes, all else keeps its bytes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from tests.context.histories import arguments, histories
from tests.support.messages import calls, msg, prose, result, system, user
from trimtab.context.apply.cut import head
from trimtab.context.apply.marks import unpin
from trimtab.context.apply.rewrite import announce, message, rewrite, squeeze_arguments
from trimtab.context.edits import Stage
from trimtab.context.estimate.parts import _BY_TYPE
from trimtab.context.read.views import View, view
from trimtab.context.texts import ANNOUNCEMENT, CLEARED_ARGUMENTS, PLACEHOLDER, REMOVED, TRUNCATED

IMAGE = {"type": "image_url", "image_url": {"url": "https://example.invalid/a.png"}}


def content(raw: bytes) -> Any:
    return json.loads(raw)["content"]


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def test_fields_that_are_not_named_keep_their_bytes() -> None:
    raw = b'{"role":"tool","n":1234567890123456789012,"content":"' + b"x" * 99 + b'","f":1e21,"g":1.0,"e":"\\u00e9"}'
    for stage in ("truncated", "cleared", "squeezed"):
        made = rewrite(raw, stage, 20)
        for kept in (b'"n":1234567890123456789012', b'"f":1e21', b'"g":1.0', b'"e":"\\u00e9"'):
            assert kept in made
        assert list(json.loads(made)) == list(json.loads(raw))


def test_truncating_text() -> None:
    made = content(rewrite(user("x" * 100), "truncated", 50))
    assert made == "x" * 38 + "\n" + TRUNCATED


TRUNCATED_PARTS: dict[str, tuple[list[Any], list[Any]]] = {
    "in the first": ([text("x" * 99), text("y")], [text("x" * 28 + "\n" + TRUNCATED)]),
    "in the second": ([text("x" * 20), text("y" * 99)], [text("x" * 20), text("y" * 8 + "\n" + TRUNCATED)]),
    "between two": ([text("x" * 40), text("y")], [text("x" * 40), text(TRUNCATED)]),
    "images stay": ([text("x" * 41), IMAGE, text("y"), IMAGE], [text("x" * 28 + "\n" + TRUNCATED), IMAGE, IMAGE]),
    "other fields stay": (
        [{"type": "text", "text": "x" * 99, "cache_control": {"type": "ephemeral"}}],
        [{"type": "text", "text": "x" * 28 + "\n" + TRUNCATED, "cache_control": {"type": "ephemeral"}}],
    ),
}


@pytest.mark.parametrize(("parts", "expected"), TRUNCATED_PARTS.values(), ids=TRUNCATED_PARTS)
def test_truncating_an_array(parts: list[Any], expected: list[Any]) -> None:
    assert content(rewrite(user(parts), "truncated", 40)) == expected


@pytest.mark.parametrize("before", ["text", [text("x"), IMAGE], None, []])
def test_clearing_leaves_the_placeholder_and_the_id(before: Any) -> None:
    made = json.loads(rewrite(result("a1B2c3D4e", before, name="n"), "cleared", 0))
    assert made == {"role": "tool", "content": PLACEHOLDER, "tool_call_id": "a1B2c3D4e", "name": "n"}


CACHED = {"cache_control": {"type": "ephemeral"}}


def test_a_cleared_result_keeps_its_mark_for_the_providers_cache() -> None:
    made = content(rewrite(result("a", [text(prose(90)), {**text(prose(90)), **CACHED}]), "cleared", 0))
    assert made == [{**text(PLACEHOLDER), **CACHED}]
    assert content(rewrite(result("a", [text(prose(90))], **CACHED), "cleared", 0)) == PLACEHOLDER


def test_a_truncated_message_keeps_it_too() -> None:
    parts = [text(prose(90)), text("b"), {**text("c"), **CACHED}]
    assert content(rewrite(user(parts), "truncated", 50)) == [{**text(head(prose(90), 50)), **CACHED}]


def test_squeezing_keeps_head_and_tail_of_each_text() -> None:
    before = [text("a" * 900 + "END"), IMAGE, text("short")]
    first, image, last = content(rewrite(result("a", before), "squeezed", 300))
    assert len(first["text"]) <= 300
    assert first["text"].startswith("aaa")
    assert first["text"].endswith("END")
    assert (image, last) == (IMAGE, text("short"))


def test_squeezed_arguments_stay_json_and_other_calls_keep_theirs() -> None:
    raw = json.loads(calls("a", "b", arguments=json.dumps({"path": "f", "content": prose(5_000), "n": [1, None]})))
    raw["tool_calls"][1]["function"]["arguments"] = '{"x": 1.0}'
    first, second = json.loads(rewrite(json.dumps(raw).encode(), "squeezed", 200))["tool_calls"]
    cut = json.loads(first["function"]["arguments"])
    assert (cut["path"], cut["n"]) == ("f", [1, None])
    assert TRUNCATED in cut["content"]
    assert second["function"]["arguments"] == '{"x": 1.0}'


GIVEN: list[tuple[dict[str, Any], str, Any]] = [
    ({"function": {"name": "f", "arguments": {"a": "x" * 900, "b": [1, None]}}}, "squeezed", {"b": [1, None]}),
    ({"function": {"name": "f", "arguments": {"a": 1}}}, "squeezed", {"a": 1}),
    ({"function": {"name": "f", "arguments": {"a": list(range(900))}}}, "squeezed", {}),
    ({"function": {"name": "f", "arguments": {"a": 1}}}, "inputs_cleared", {}),
    ({"function": {"name": "f", "arguments": {"a": msgspec.Raw(b"[" * 600 + b"]" * 600)}}}, "squeezed", {}),
]


@pytest.mark.parametrize(("call", "stage", "left"), GIVEN)
def test_arguments_given_as_an_object_stay_one(call: dict[str, Any], stage: Stage, left: dict[str, Any]) -> None:
    raw = msgspec.json.encode({"role": "assistant", "tool_calls": [{"id": "a", **call}]})
    made = json.loads(rewrite(raw, stage, 200))["tool_calls"][0]["function"]["arguments"]
    assert len(json.dumps(made)) < 250
    assert {key: made[key] for key in left} == left


@pytest.mark.parametrize(("stage", "begins"), [("squeezed", "*** Begin Patch"), ("inputs_cleared", TRUNCATED)])
def test_the_input_of_a_custom_tool_is_text_and_stays_so(stage: Stage, begins: str) -> None:
    custom = {"name": "apply_patch", "input": "*** Begin Patch\n" + "+x = 1\n" * 900 + "*** End Patch"}
    raw = msgspec.json.encode({"role": "assistant", "tool_calls": [{"id": "a", "type": "custom", "custom": custom}]})
    made = json.loads(rewrite(raw, stage, 300))["tool_calls"][0]
    assert made["custom"]["name"] == "apply_patch"
    assert made["custom"]["input"].startswith(begins)
    assert len(made["custom"]["input"]) <= 300
    assert view(rewrite(raw, stage, 300)).tokens < view(raw).tokens


def test_calls_in_which_nothing_changes_keep_their_bytes() -> None:
    raw = b'{"role":"assistant","content":"' + b"x" * 900 + b'","tool_calls":[ {"id":"a","x":1e21} ]}'
    assert b'[ {"id":"a","x":1e21} ]' in rewrite(raw, "squeezed", 300)


ARGUMENTS: dict[str, tuple[str, str]] = {
    "short": ('{"a": 1}', '{"a": 1}'),
    "not JSON": ("x" * 500, CLEARED_ARGUMENTS),
    "half of JSON": ('{"a": "' + "x" * 500, CLEARED_ARGUMENTS),
    "too many values": (json.dumps(list(range(500)), separators=(",", ":")), CLEARED_ARGUMENTS),
    "too deep": ("[" * 5_000 + "]" * 5_000, CLEARED_ARGUMENTS),
    "a long string": (json.dumps({"a": "x" * 500}), '{"a":"' + "x" * 52 + "\\n[Truncated]\\n" + "x" * 25 + '"}'),
    "long strings": (
        json.dumps({"a": "x" * 90, "b": ["y" * 90], "c": "z"}, separators=(",", ":")),
        '{"a":"'
        + "x" * 15
        + "\\n[Truncated]\\n"
        + "x" * 7
        + '","b":["'
        + "y" * 15
        + "\\n[Truncated]\\n"
        + "y" * 7
        + '"],"c":"z"}',
    ),
    "too many strings": (json.dumps(["x" * 40] * 20), CLEARED_ARGUMENTS),
}


@pytest.mark.parametrize(("before", "after"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_squeezing_arguments(before: str, after: str) -> None:
    assert squeeze_arguments(before, 100) == after


@given(arguments, st.integers(1, 400))
def test_squeezed_arguments_are_shorter_and_valid(before: str, chars: int) -> None:
    after = squeeze_arguments(before, chars)
    assert len(after) <= max(chars, len(CLEARED_ARGUMENTS))
    assert squeeze_arguments(after, max(chars, len(CLEARED_ARGUMENTS))) == after
    if after != before:
        json.loads(after)


def test_clearing_inputs_leaves_everything_else() -> None:
    made = json.loads(rewrite(calls("a", "b", content="I look."), "inputs_cleared", 0))
    assert [call["function"]["arguments"] for call in made["tool_calls"]] == [CLEARED_ARGUMENTS] * 2
    assert [call["id"] for call in made["tool_calls"]] == ["a", "b"]
    assert made["content"] == "I look."


def test_clearing_inputs_of_a_function_call() -> None:
    made = rewrite(b'{"role":"assistant","function_call":{"name":"f","arguments":"{\\"a\\":1}"}}', "inputs_cleared", 0)
    assert json.loads(made)["function_call"] == {"name": "f", "arguments": CLEARED_ARGUMENTS}


UNPINNED = [
    (b'{"role":"user"}', b'{"role":"user"}'),
    (b'{"pinned":true}', b"{}"),
    (b'{"role":"user","pinned":true,"n":1e21}', b'{"role":"user","n":1e21}'),
    (b'{ "role": "user",\n "pinned": true , "n" : 1.0 }', b'{ "role": "user",\n "n" : 1.0 }'),
    (b'{ "role": "user" , "n": 1.0, "pinned": {"pinned": 1} }', b'{ "role": "user" , "n": 1.0 }'),
    (
        b'{"content": "\\"pinned\\": true, ", "x": {"pinned": true}}',
        b'{"content": "\\"pinned\\": true, ", "x": {"pinned": true}}',
    ),
    (b'{"pinned": true, "role": "user", "pinned": true}', b'{"role":"user"}'),
    (b'{"p\\u0069nned": true, "role": "user"}', b'{"role":"user"}'),
]


@pytest.mark.parametrize(("before", "after"), UNPINNED)
def test_unpinning_takes_the_mark_and_nothing_else(before: bytes, after: bytes) -> None:
    assert unpin(before) == after


def test_a_message_of_very_many_fields_is_unpinned_too() -> None:
    fields = {f"f{n}": n for n in range(1_000)}
    assert json.loads(unpin(json.dumps({**fields, "pinned": True}).encode())) == fields


ANNOUNCED: list[tuple[Any, Any]] = [
    ("Be brief.", "Be brief." + ANNOUNCEMENT),
    ("", ANNOUNCEMENT),
    (None, ANNOUNCEMENT),
    ([text("Be brief.")], [text("Be brief."), text(ANNOUNCEMENT.strip())]),
]


@pytest.mark.parametrize(("before", "after"), ANNOUNCED)
def test_announcing(before: Any, after: Any) -> None:
    assert content(announce(system(before))) == after


def test_a_message_of_our_own() -> None:
    assert json.loads(message("system", "x\n\u00e9")) == {"role": "system", "content": "x\n\u00e9"}


@pytest.mark.parametrize("kind", sorted(_BY_TYPE))
def test_whatever_carries_bytes_can_be_made_lighter(kind: str) -> None:
    parts = [{"type": kind, kind: {"data": "A" * 2_000}}, text("x" * 2_000)]
    (light, kept) = content(rewrite(user(parts), "lightened", 0))
    assert light["text"] in REMOVED.values()
    assert kept == parts[1]


STAGES: tuple[Stage, ...] = ("truncated", "cleared", "inputs_cleared", "squeezed")


def named(view: View) -> list[tuple[str, str]]:
    return [(call.id, call.name) for call in view.calls]


@settings(max_examples=80, deadline=None)
@given(histories, st.sampled_from(STAGES), st.integers(1, 600))
def test_what_has_a_known_form_can_be_rewritten_and_keeps_role_and_place(
    raws: list[bytes], stage: Stage, amount: int
) -> None:
    for raw in raws:
        before = view(raw)
        if before.shape == "opaque" or (stage == "truncated" and not before.chars):
            continue
        made = rewrite(raw, stage, amount)
        after = view(made)
        assert (after.role, named(after), after.answers) == (before.role, named(before), before.answers)
        was, now = (msgspec.json.decode(m, type=dict[str, Raw]) for m in (raw, made))
        assert list(now) == [*was, *(["content"] if stage == "cleared" and "content" not in was else [])]
        edited = {"content", "tool_calls", "function_call"}
        assert all(bytes(now[k]) == bytes(was[k]) for k in was if k not in edited)


@settings(max_examples=80, deadline=None)
@given(histories, st.sampled_from(STAGES), st.integers(1, 600))
def test_rewriting_twice_is_rewriting_once(raws: list[bytes], stage: Stage, amount: int) -> None:
    for raw in raws:
        if view(raw).shape != "opaque" and (stage != "truncated" or view(raw).chars):
            once = rewrite(raw, stage, max(amount, len(TRUNCATED)))
            assert stage == "squeezed" or rewrite(once, stage, max(amount, len(TRUNCATED))) == once


def test_a_developer_message_is_announced_like_a_system_message() -> None:
    assert content(announce(msg("developer", "x"))) == "x" + ANNOUNCEMENT
