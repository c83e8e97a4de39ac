"""True counts, and the rules a strict upstream holds tool calls to."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

pytest.importorskip("bpe_openai", reason="the demo's tokenizer: pip install 'trimtab[demo]'")

from trimtab.cli.demo.counting import Counter200k, broken_rule, growing, rendered

COUNTER = Counter200k()


def call(*ids: str) -> dict[str, Any]:
    calls = [{"id": i, "type": "function", "function": {"name": "read", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(of: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": of, "content": "text"}


def read(*messages: dict[str, Any]) -> list[Any]:
    return COUNTER.read([msgspec.Raw(msgspec.json.encode(message)) for message in messages])


@pytest.mark.parametrize(
    ("text", "tokens"),
    # o200k_base, as OpenAI's tokenizer page counts them
    [("", 0), ("hello world", 2), ("<|endoftext|>", 7), ("こんにちは", 1)],
)
def test_counts_are_o200k(text: str, tokens: int) -> None:
    assert COUNTER.tokens(text) == tokens


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"role": "user", "content": "hi"}, "hi"),
        ({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        (call("c"), "\nread{}"),
    ],
)
def test_a_message_is_counted_as_a_template_renders_it(message: dict[str, Any], text: str) -> None:
    assert rendered(message) == text
    assert read(message)[0].tokens == COUNTER.tokens(text) + 4


def test_histories_grow_by_their_messages() -> None:
    messages = [{"role": "user", "content": "hello world"}, call("c"), result("c")]
    sizes = growing(COUNTER, messages, [])
    assert sizes[0] == 0
    assert sizes[1] == 6
    assert sizes == [sum(m.tokens for m in read(*messages[:n])) for n in range(4)]


USER = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("messages", "printed"),
    [
        ([USER, call("a"), result("a")], None),
        ([USER, call("a", "b"), result("b"), result("a"), call("a"), result("a")], None),
        ([USER, result("a")], "must be a response"),
        ([USER, call("a"), USER], "did not have response messages: a"),
        ([USER, call("a", "b"), result("a")], "did not have response messages: b"),
        ([USER, call("a"), result("a"), result("a")], "must be followed"),
    ],
    ids=["whole", "reused ids", "no call", "no result", "half", "twice"],
)
def test_broken_pairs_are_reported_in_openais_words(messages: list[dict[str, Any]], printed: str | None) -> None:
    problem = broken_rule(read(*messages))
    assert (problem is None) == (printed is None)
    assert printed is None or printed in str(problem)
