"""The form all patterns expect: numbers as digits, no quotes, no links, nothing the client wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.overflow.normalize import MAX_CHARS, any_of, normalize, plain_digits

NUMBERS = [
    ("131,072", "131072"),
    ("131.072", "131072"),
    ("131 072", "131072"),
    ("131_072", "131072"),
    ("1,048,576", "1048576"),
    ("128k tokens", "128000 tokens"),
    ("1.5m tokens", "1500000 tokens"),
    ("[1, 30720]", "[1, 30720]"),
    ("[1,30720]", "[1,30720]"),
    ("4.77s", "4.77s"),
    ("3.000000", "3.000000"),
    ("(9351.0)", "(9351)"),
    ("claude 3.0", "claude 3.0"),
    ("gpt-4-32k", "gpt-4-32k"),
    ("moonshot-v1-128k", "moonshot-v1-128k"),
    ("8x7b", "8x7b"),
    ("128k-instruct", "128k-instruct"),
    ("203557, model", "203557, model"),
    ("199759 + 8192", "199759 + 8192"),
]


@pytest.mark.parametrize(("written", "read"), NUMBERS)
def test_plain_digits(written: str, read: str) -> None:
    assert plain_digits(written) == read


SENTENCES = [
    ("The `Prompt`\n  is “too” long", "the prompt is too long"),
    ("131'072 and 131’072", "131072 and 131072"),
    ("８１９２ ｔｏｋｅｎｓ，最大", "8192 tokens,最大"),
    ("slow. See https://x.test/docs/rate-limits now", "slow. see now"),
    ("bad value, input: {'content': 'prompt is too long'}", "bad value, "),
    ('bad value [{"messages": [{"role"', 'bad value [{'),
    ("Input validation error: `inputs` must", " : inputs must"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "form"), SENTENCES)
def test_normalize(text: str, form: str) -> None:
    assert normalize(text) == form


@given(st.text(max_size=3000))
def test_a_normalized_text_is_short(text: str) -> None:
    assert len(normalize(text)) <= MAX_CHARS + 64


def test_any_of_keeps_alternatives_apart() -> None:
    assert any_of("a|b", "c").fullmatch("c")
    assert not any_of("a|b", "c").fullmatch("bc")
