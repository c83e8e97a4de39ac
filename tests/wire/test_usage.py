"""What an answer tells of itself, and what is not taken for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.wire.usage import NOTHING, Seen, Usage, observe, usage_of

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


SEEN: dict[str, tuple[str, Seen]] = {
    "a chunk of text": ('{"choices":[{"delta":{"content":"x"},"finish_reason":null}],"usage":null}', NOTHING),
    "the end": ('{"choices":[{"delta":{},"finish_reason":"stop"}]}', Seen(None, "stop")),
    "the window ran out": (
        '{"choices":[{"finish_reason":"model_context_window_exceeded"}],"usage":{"prompt_tokens":1}}',
        Seen(Usage(1), "model_context_window_exceeded"),
    ),
    "one choice of two ended": (
        '{"choices":[{"finish_reason":null},{"finish_reason":"length"}]}',
        Seen(None, "length"),
    ),
    "usage without choices": ('{"usage":{"prompt_tokens":1}}', Seen(Usage(1))),
    "usage with empty choices": ('{"choices":[],"usage":{"prompt_tokens":1}}', Seen(Usage(1))),
    "usage with strange choices": ('{"choices":{"a":1},"usage":{"prompt_tokens":1}}', Seen(Usage(1))),
    "usage with a strange reason": (
        '{"choices":[{"finish_reason":7}],"usage":{"prompt_tokens":1}}',
        Seen(Usage(1)),
    ),
    "Groq's place": ('{"choices":[],"x_groq":{"id":"r","usage":{"prompt_tokens":1}}}', Seen(Usage(1))),
    "an error in a success": ('{"choices":[],"error":{"code":502,"message":"busy"}}', Seen(error=True)),
    "an error of text": ('{"error":"busy"}', Seen(error=True)),
    "no error": ('{"error":null,"usage":{"prompt_tokens":1}}', Seen(Usage(1))),
    "text that speaks of usage": ('{"choices":[{"message":{"content":"\\"usage\\": 7"}}]}', NOTHING),
    "null": ("null", NOTHING),
    "a list": ('[{"usage":{"prompt_tokens":1}}]', NOTHING),
    "a string": ('"\\"usage\\""', NOTHING),
    "done": ("[DONE]", NOTHING),
    "cut off": ('{"usage":{"prompt_tokens":1', NOTHING),
    "nothing": ("", NOTHING),
    "too deep": ('{"usage":' + "[" * 100_000, NOTHING),
    "spaces": ('{ "usage" : { "prompt_tokens" : 1 } }', Seen(Usage(1))),
}


@pytest.mark.parametrize(("data", "expected"), SEEN.values(), ids=SEEN)
def test_what_is_seen(data: str, expected: Seen) -> None:
    assert observe(data.encode()) == expected


KEYS = st.sampled_from(
    ["usage", "choices", "error", "finish_reason", "prompt_tokens", "prompt_tokens_details", "x_groq"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_any_json_is_tolerated(value: Any) -> None:
    seen = observe(json.dumps({"usage": value, "choices": value, "error": value}).encode())
    observe(json.dumps(value).encode())
    assert seen.usage is None or isinstance(seen.usage, Usage)


@given(st.binary(max_size=60))
def test_any_bytes_are_tolerated(data: bytes) -> None:
    observe(data)
    observe(b'{"usage":' + data)
    observe(b'{"usage":{"prompt_tokens":1},"x":"' + data + b'"}')
