"""Counting the values of a JSON text: those in strings do not count, and no cut changes the count."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.wire import values
from trimtab.wire.values import has_more_entries, has_more_of, has_more_values, holds

TEXTS = {
    "numbers": (b"[" + b"0," * 1_000 + b"0]", 1_001),
    "objects": (b"[" + b"{}," * 1_000 + b"{}]", 1_001),
    "fields": (json.dumps({f"f{i}": i for i in range(1_000)}).encode(), 1_999),
    "lists in lists": (b"[" * 1_000 + b"]" * 1_000, 1_000),
    "commas in a string": (b'["' + b",:[" * 1_000 + b'"]', 1),
    "quotes in a string": (b'["' + b'\\",' * 1_000 + b'"]', 1),
    "backslashes in a string": (b'["' + b"\\\\" * 1_000 + b'",1,2]', 3),
}


@pytest.mark.parametrize(("text", "found"), TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("size", [1, 2, 3, 1 << 20])
def test_values_are_counted(text: bytes, found: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "_SLICE", size)
    assert has_more_values(text, found - 1)
    assert not has_more_values(text, found)


@pytest.mark.parametrize("most", [999, 1_000])
def test_only_values_from_the_start_on_are_counted(most: int) -> None:
    old, new = b'[{"text":"a,b"}' * 1_000, b",0" * 1_000 + b"]"
    assert has_more_values(old + new, most, len(old)) == (most < 1_000)


CYCLE = [
    {
        "role": "assistant",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "a,b:[{"}]},
]


def test_the_fields_of_a_conversation_are_not_entries_of_a_list() -> None:
    text = json.dumps({"messages": CYCLE * 1_000, "tools": []}, separators=(",", ":")).encode()
    assert has_more_values(text, 20_000)
    assert not has_more_entries(text, 6_100, 20_000)  # 2,000 messages, 1,000 calls, 1,000 parts; each list counts too
    assert has_more_entries(text, 3_900, 20_000)
    assert has_more_entries(text, 6_100, 9_000)


@pytest.mark.parametrize("entry", [b"1", b"{}", b'"a,b"', b"[]", b'{"role":1}'])
@pytest.mark.parametrize("size", [3, 1 << 20])
def test_entries_of_any_kind_are_counted(entry: bytes, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "_SLICE", size)
    text = b'{"messages":[' + b",".join([entry] * 1_000) + b"]}"
    assert has_more_entries(text, 990, 10_000)
    assert not has_more_entries(text, 2_010, 10_000)


_DENSEST = st.recursive(st.just([]) | st.just(0), lambda inner: st.lists(inner, min_size=1), max_leaves=30)


@given(_DENSEST)
def test_no_text_has_more_for_its_length_than_is_taken_for_granted(value: Any) -> None:
    text = json.dumps(value, separators=(",", ":")).encode()
    most = max(0, text.count(b",") + text.count(b"[") - 1)
    if text != b"0":
        assert has_more_values(text, most)


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_any_json_has_at_most_as_many_as_are_counted(value: Any) -> None:
    text = json.dumps(value).encode()
    assert not has_more_values(text, text.count(b",") + text.count(b":") + text.count(b"["))
    assert has_more_values(b"[" + text + b",0]", 1) == (len(text) > 0)


@given(st.binary(max_size=40), st.binary(min_size=1, max_size=4), st.integers(0, 5), st.sampled_from([1, 2, 3, 64]))
def test_a_word_is_found_wherever_the_slices_end(body: bytes, word: bytes, start: int, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "SEARCHED", size)
        assert holds(body, word, start) == (word in body[start:])
        assert holds(word + body + word, word, len(word))
        for most in range(4):
            assert has_more_of(body, b"a", most) == (body.count(b"a") > most)
            assert has_more_of(body, b"a", most, start) == (body[start:].count(b"a") > most)
