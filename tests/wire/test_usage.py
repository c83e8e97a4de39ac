"""The usage an answer reports, and what is not taken for one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.wire.usage import Usage, usage_of

ANSWER = {"choices": [{"finish_reason": "stop", "message": {"content": "x"}}]}

USAGES: dict[str, tuple[Any, Usage | None]] = {
    "plain": ({"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}, Usage(9, 2)),
    "cached, OpenAI": (
        {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
        Usage(9, 2, 4),
    ),
    "cached, DeepSeek": ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}, Usage(9, None, 4)),
    "cached, Moonshot": ({"prompt_tokens": 9, "cached_tokens": 4}, Usage(9, None, 4)),
    "cached none": ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}}, Usage(9, None, 0)),
    "more cached than there is": ({"prompt_tokens": 9, "cached_tokens": 10}, Usage(9)),
    "zero": ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(0, 0)),
    "only the prompt": ({"prompt_tokens": 1}, Usage(1)),
    "a boolean": ({"prompt_tokens": True, "completion_tokens": 2}, Usage(None, 2)),
    "negative": ({"prompt_tokens": -1, "completion_tokens": 2}, Usage(None, 2)),
    "a float": ({"prompt_tokens": 9.0, "completion_tokens": 2}, Usage(None, 2)),
    "absurd": ({"prompt_tokens": 10**12, "completion_tokens": 2}, Usage(None, 2)),
    "beyond 64 bits": ({"prompt_tokens": 10**40, "completion_tokens": 2}, Usage(None, 2)),
    "text": ({"prompt_tokens": "9"}, None),
    "details of another type": ({"prompt_tokens": 9, "prompt_tokens_details": [4]}, Usage(9)),
    "empty": ({}, None),
    "null": (None, None),
    "a list": ([9, 2], None),
    "a number": (9, None),
}


@pytest.mark.parametrize(("reported", "expected"), USAGES.values(), ids=USAGES)
def test_usage(reported: Any, expected: Usage | None) -> None:
    assert usage_of(json.dumps({**ANSWER, "usage": reported}).encode()) == expected


BODIES: dict[str, tuple[str, Usage | None]] = {
    "a chunk of text": ('{"choices":[{"delta":{"content":"x"},"finish_reason":null}],"usage":null}', None),
    "the end": ('{"choices":[{"delta":{},"finish_reason":"stop"}]}', None),
    "without choices": ('{"usage":{"prompt_tokens":1}}', Usage(1)),
    "with empty choices": ('{"choices":[],"usage":{"prompt_tokens":1}}', Usage(1)),
    "with strange choices": ('{"choices":{"a":1},"usage":{"prompt_tokens":1}}', Usage(1)),
    "Groq's field": ('{"choices":[],"x_groq":{"id":"r","usage":{"prompt_tokens":1}}}', Usage(1)),
    "beside an error": ('{"error":{"code":502},"usage":{"prompt_tokens":1}}', Usage(1)),
    "text about usage": ('{"choices":[{"message":{"content":"\\"usage\\": 7"}}]}', None),
    "null": ("null", None),
    "a list": ('[{"usage":{"prompt_tokens":1}}]', None),
    "a string": ('"\\"usage\\""', None),
    "done": ("[DONE]", None),
    "cut off": ('{"usage":{"prompt_tokens":1', None),
    "nothing": ("", None),
    "too deep": ('{"usage":{"x":' + "[" * 100_000, None),
    "spaces": ('{ "usage" : { "prompt_tokens" : 1 } }', Usage(1)),
}


@pytest.mark.parametrize(("data", "expected"), BODIES.values(), ids=BODIES)
def test_usage_of_any_body(data: str, expected: Usage | None) -> None:
    assert usage_of(data.encode()) == expected


KEYS = st.sampled_from(["usage", "choices", "prompt_tokens", "completion_tokens", "prompt_tokens_details", "x_groq"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_any_json_is_tolerated(value: Any) -> None:
    found = usage_of(json.dumps({"usage": value, "choices": value, "x_groq": value}).encode())
    usage_of(json.dumps(value).encode())
    assert found is None or isinstance(found, Usage)


@given(st.binary(max_size=60))
def test_any_bytes_are_tolerated(data: bytes) -> None:
    usage_of(data)
    usage_of(b'{"usage":' + data)
    usage_of(b'{"usage":{"prompt_tokens":1},"x":"' + data + b'"}')


def test_of_a_usage_that_is_huge_nothing_else_is_built() -> None:
    rest = [{}] * 100_000
    assert usage_of(json.dumps({"usage": {"prompt_tokens": 1, "x": rest}}).encode()) == Usage(1)
    assert usage_of(json.dumps({"usage": {"prompt_tokens": 1, "cached_tokens": "2", "x": rest}}).encode()) is None
