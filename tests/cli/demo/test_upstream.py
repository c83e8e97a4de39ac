"""The demo's upstream, called with the real OpenAI SDK, and its prefix cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

openai = pytest.importorskip("openai", reason="the demo's client: pip install 'trimtab[demo]'")
pytest.importorskip("bpe_openai", reason="the demo's tokenizer: pip install 'trimtab[demo]'")

from trimtab.cli.demo.counting import Counted  # noqa: E402
from trimtab.cli.demo.upstream import (  # noqa: E402
    ANSWER,
    MODEL,
    REMEMBERED,
    PrefixCache,
    Upstream,
    common,
    shared,
)

LONG = "one two three four five six seven eight nine ten " * 150  # about 1,500 tokens


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with Upstream(4096) as running:
        yield running


@pytest.fixture(scope="module")
def client(upstream: Upstream) -> Any:
    return openai.OpenAI(base_url=upstream.base_url, api_key="demo", max_retries=0)


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def test_it_lists_its_model_with_its_window(client: Any) -> None:
    (model,) = client.models.list().data
    assert (model.id, model.max_model_len) == (MODEL, 4096)


def test_it_answers_and_reports_what_its_cache_served(upstream: Upstream, client: Any) -> None:
    upstream.forget()
    first, second = (client.chat.completions.create(model=MODEL, messages=user(LONG), max_tokens=100) for _ in range(2))
    assert first.choices[0].message.content == ANSWER
    assert first.usage.prompt_tokens_details.cached_tokens == 0
    cached = second.usage.prompt_tokens_details.cached_tokens
    assert 1024 <= cached <= second.usage.prompt_tokens
    assert cached % 128 == 0


def test_a_stream_says_the_same_and_ends_with_usage(client: Any) -> None:
    stream = client.chat.completions.create(
        model=MODEL, messages=user("hello"), stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices).strip() == ANSWER
    assert chunks[-1].usage.prompt_tokens == 5


@pytest.mark.parametrize(
    ("messages", "max_tokens", "code", "text"),
    [
        (user(LONG * 3), 10, "context_length_exceeded", "your messages resulted in"),
        (user(LONG), 4000, "context_length_exceeded", "4000 in the completion"),
        ([{"role": "tool", "tool_call_id": "x", "content": ""}], 10, None, "must be a response"),
        (["nonsense"], 10, None, "could not parse"),
    ],
    ids=["too long", "with its answer", "orphan", "no message"],
)
def test_it_refuses_in_openais_words(client: Any, messages: Any, max_tokens: int, code: str | None, text: str) -> None:
    with pytest.raises(openai.BadRequestError, match=text) as refused:
        client.chat.completions.create(model=MODEL, messages=messages, max_tokens=max_tokens)
    assert refused.value.code == code


def message(name: str, tokens: int) -> Counted:
    return Counted(name.encode(), tokens)


A, B, C = message("aaaa", 1000), message("bbbb", 500), message("aacc", 400)


@pytest.mark.parametrize(
    ("first", "second", "hit"),
    [
        ([A, B], [A, B, C], 1408),
        ([A], [A, B], 0),
        ([A, B], [B, A], 0),
        ([A, B, A], [A, B, C], 1664),
    ],
    ids=["in steps of 128", "below 1,024", "another beginning", "half of a message"],
)
def test_what_was_read_before_is_a_hit(first: list[Counted], second: list[Counted], hit: int) -> None:
    cache = PrefixCache()
    assert cache.hit(first) == 0
    assert cache.hit(second) == hit


def test_only_the_last_requests_are_remembered() -> None:
    cache = PrefixCache()
    cache.hit([A, B])
    for number in range(REMEMBERED):
        cache.hit([message(f"other {number}", 5)])
    assert cache.hit([A, B]) == 0


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_the_common_beginning_is_found_for_any_ending(head: bytes, a: bytes, b: bytes) -> None:
    found = common(head + a, head + b)
    assert found >= len(head)
    assert (head + a)[:found] == (head + b)[:found]
    assert found == min(len(head + a), len(head + b)) or (head + a)[found] != (head + b)[found]


def test_a_request_shares_all_with_itself() -> None:
    assert shared([A, B, C], [A, B, C]) == 1900
