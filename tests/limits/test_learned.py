"""What an overflow teaches, and what it does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.limits.learned import LEAST, Learned, both, disproved, learn, lowered
from trimtab.limits.limit import DEFAULT, Limit

WIDE = Limit(context_size=400_000, max_output_tokens=128_000, source="configured", detail="c")
CAPPED = Limit(context_size=400_000, max_output_tokens=128_000, max_input_tokens=272_000, source="bundled")

LESSONS = [
    # limit, taken, reported, input_only, lesson
    (DEFAULT, 0, 32_768, False, Learned(window=32_768)),
    (DEFAULT, 0, 128_000, False, None),  # nothing new
    (DEFAULT, 0, 200_000, False, None),  # lowering only
    (DEFAULT, 0, 3, False, None),  # "maximum context length is 3 tokens"
    (DEFAULT, 0, 2_013, False, Learned(window=2_013)),
    (DEFAULT, 50_000, 32_768, False, None),  # it has just taken more
    (WIDE, 0, 272_000, False, Learned(input=272_000)),  # the window less the output: the input's share
    (WIDE, 0, 250_000, True, Learned(input=250_000)),
    (CAPPED, 0, 272_000, False, None),
    (CAPPED, 0, 200_000, True, Learned(input=200_000)),
    (CAPPED, 0, 200_000, False, Learned(window=200_000)),
]


@pytest.mark.parametrize(("limit", "taken", "reported", "input_only", "lesson"), LESSONS)
def test_what_a_refusal_teaches(
    limit: Limit, taken: int, reported: int, input_only: bool, lesson: Learned | None
) -> None:
    assert learn(limit, taken, reported, input_only=input_only) == lesson


def test_a_lesson_lowers_and_says_so() -> None:
    limit = lowered(WIDE, Learned(window=100_000))
    assert (limit.context_size, limit.max_output_tokens, limit.source) == (100_000, 100_000, "learned")
    assert "configured 400000" in limit.detail
    assert lowered(WIDE, Learned(input=272_000)).max_input_tokens == 272_000
    assert lowered(DEFAULT, Learned(window=32_768)).trusted


def test_a_lesson_that_lowers_nothing_leaves_the_limit() -> None:
    assert lowered(WIDE, Learned(window=500_000)) is WIDE
    assert lowered(CAPPED, Learned(input=272_000)) is CAPPED
    assert lowered(WIDE, Learned()) is WIDE


def test_two_lessons_and_their_disproof() -> None:
    lesson = both(Learned(window=9_000), Learned(window=8_000, input=7_000))
    assert lesson == Learned(window=8_000, input=7_000)
    assert disproved(lesson, 7_001)
    assert not disproved(lesson, 7_000)
    assert not disproved(Learned(), 10**9)


sizes = st.integers(1, 10**7)


@given(sizes, sizes, st.none() | sizes, sizes, sizes, st.booleans())
def test_no_lesson_raises_a_limit(
    size: int, output: int, cap: int | None, taken: int, reported: int, input_only: bool
) -> None:
    limit = Limit(context_size=size, max_output_tokens=output, max_input_tokens=cap, source="bundled")
    lesson = learn(limit, taken, reported, input_only=input_only)
    if lesson:
        after = lowered(limit, lesson)
        assert after.context_size <= limit.context_size
        assert (after.max_input_tokens or after.context_size) <= (limit.max_input_tokens or size)
        assert after.context_size >= max(LEAST, taken) or after.context_size == size
