"""What an overflow teaches, as a value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.limits.lesson import LEAST, Lesson, bound, disproved, lesson_of, lowered, lowest
from trimtab.limits.limit import DEFAULT, Limit

WIDE = Limit(context_size=400_000, max_output_tokens=128_000, source="configured", detail="c")
CAPPED = Limit(context_size=400_000, max_output_tokens=128_000, max_input_tokens=272_000, source="bundled")

LESSONS = [
    # limit, reported, lesson
    (DEFAULT, 32_768, Lesson(window=32_768)),
    (DEFAULT, 128_000, None),  # nothing new
    (DEFAULT, 200_000, None),  # lowering only
    (DEFAULT, 3, None),  # "maximum context length is 3 tokens"
    (DEFAULT, 2_013, Lesson(window=2_013)),
    (WIDE, 272_000, Lesson(input=272_000)),  # the window less the output: the input's share
    (CAPPED, 272_000, None),
    (CAPPED, 200_000, Lesson(window=200_000)),
]


@pytest.mark.parametrize(("limit", "reported", "lesson"), LESSONS)
def test_what_a_refusal_teaches(limit: Limit, reported: int, lesson: Lesson | None) -> None:
    assert lesson_of(limit, reported) == lesson


def test_a_lesson_lowers_and_says_so() -> None:
    limit = lowered(WIDE, Lesson(window=100_000))
    assert (limit.context_size, limit.max_output_tokens, limit.source) == (100_000, 100_000, "learned")
    assert "configured 400000" in limit.detail
    assert lowered(WIDE, Lesson(input=272_000)).max_input_tokens == 272_000
    assert lowered(DEFAULT, Lesson(window=32_768)).trusted
    assert not lowered(WIDE, Lesson(input=32_768, provisional=True)).trusted


def test_a_lesson_that_lowers_nothing_leaves_the_limit() -> None:
    assert lowered(WIDE, Lesson(window=500_000)) is WIDE
    assert lowered(CAPPED, Lesson(input=272_000)) is CAPPED
    assert lowered(WIDE, Lesson()) is WIDE


def test_two_lessons_and_their_disproof() -> None:
    lesson = lowest(Lesson(window=9_000), Lesson(window=8_000, input=7_000))
    assert lesson == Lesson(window=8_000, input=7_000)
    assert bound(lesson) == 7_000
    assert not lowest(Lesson(window=9_000, provisional=True), Lesson(window=8_000)).provisional
    assert lowest(Lesson(window=9_000), Lesson(input=8_000, provisional=True)).provisional
    assert disproved(lesson, 7_001)
    assert not disproved(lesson, 7_000)
    assert not disproved(Lesson(), 10**9)


sizes = st.integers(1, 10**7)


@given(sizes, sizes, st.none() | sizes, sizes)
def test_no_lesson_raises_a_limit(size: int, output: int, cap: int | None, reported: int) -> None:
    limit = Limit(context_size=size, max_output_tokens=output, max_input_tokens=cap, source="bundled")
    lesson = lesson_of(limit, reported)
    if lesson:
        after = lowered(limit, lesson)
        assert after.context_size <= limit.context_size
        assert (after.max_input_tokens or after.context_size) <= (limit.max_input_tokens or size)
        assert after.context_size >= LEAST or after.context_size == size
