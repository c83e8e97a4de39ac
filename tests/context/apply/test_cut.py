"""Text is cut where it does not hurt a reader or a parser."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.context.apply.cut import head, head_and_tail, safe_cut
from trimtab.context.texts import TRUNCATED

SAFE: dict[str, tuple[str, int, int]] = {
    "plain": ("hello world", 5, 5),
    "the start": ("hello", 0, 0),
    "the end": ("hello", 5, 5),
    "beyond the end": ("hello", 99, 5),
    "before the start": ("hello", -3, 0),
    "a combining mark": ("cafe\u0301!", 4, 3),
    "two combining marks": ("e\u0301\u0323x", 2, 0),
    "a joined emoji": ("ab👩‍🚀!", 3, 2),
    "a skin tone": ("ab👍🏽!", 3, 2),
    "a variation selector": ("ab❤\ufe0f!", 3, 2),
    "a keycap": ("ab1\ufe0f\u20e3", 3, 2),
    "a flag": ("ab🇩🇪!", 3, 2),
    "a vowel sign": ("ab\u0915\u093f", 3, 2),
    "carriage return, line feed": ("ab\r\ncd", 3, 2),
    "a JSON escape": ("ab\\n", 3, 2),
    "a JSON escape of a character": ("ab\\u00e9!", 5, 2),
    "after an escape": ("ab\\u00e9!", 8, 8),
    "an escaped backslash": ("ab\\\\cd", 4, 4),
    "inside an escaped backslash": ("ab\\\\cd", 3, 2),
    "a hex escape": ("ab\\x4", 4, 2),
    "a colour": ("ab\x1b[31mred", 5, 2),
    "after a colour": ("ab\x1b[31mred", 7, 7),
}


@pytest.mark.parametrize(("text", "at", "expected"), SAFE.values(), ids=SAFE)
def test_safe(text: str, at: int, expected: int) -> None:
    assert safe_cut(text, at) == expected


def test_a_sequence_without_end_is_cut_somewhere() -> None:
    assert 400 <= safe_cut("a" + "\u0301" * 1_000, 500) <= 500


def test_head_ends_in_the_mark() -> None:
    assert head("x" * 100, 50) == "x" * 38 + "\n" + TRUNCATED
    assert head("x" * 50, 50) == "x" * 50
    assert head("x" * 50, 3) == TRUNCATED
    assert head("", 0) == ""


def test_head_and_tail_keeps_both_ends() -> None:
    cut = head_and_tail("start" + "x" * 1_000 + "end", 200)
    assert cut.startswith("start")
    assert cut.endswith("end")
    assert TRUNCATED in cut
    assert len(cut) <= 200
    assert head_and_tail("x" * 50, 3) == TRUNCATED


@given(st.text(max_size=300), st.integers(0, 310))
def test_the_limit_holds(text: str, chars: int) -> None:
    for cut in (head(text, chars), head_and_tail(text, chars)):
        assert cut == text or len(cut) <= max(chars, len(TRUNCATED))
        assert (cut == text) == (len(text) <= chars) or TRUNCATED in text


@given(st.text(max_size=300), st.integers(-5, 310))
def test_safe_never_moves_forward_nor_far_back(text: str, at: int) -> None:
    inside = max(0, min(at, len(text)))
    assert inside - 64 <= safe_cut(text, at) <= inside
