"""What an overflow teaches, and how long it holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import Clock
from trimtab.limits.events import Event
from trimtab.limits.lessons import LEAST, Lesson, Lessons, disproved, lesson_of, lowered, lowest
from trimtab.limits.limit import DEFAULT, Limit

WIDE = Limit(context_size=400_000, max_output_tokens=128_000, source="configured", detail="c")
CAPPED = Limit(context_size=400_000, max_output_tokens=128_000, max_input_tokens=272_000, source="bundled")

LESSONS = [
    # limit, accepted, reported, lesson
    (DEFAULT, 0, 32_768, Lesson(window=32_768)),
    (DEFAULT, 0, 128_000, None),  # nothing new
    (DEFAULT, 0, 200_000, None),  # lowering only
    (DEFAULT, 0, 3, None),  # "maximum context length is 3 tokens"
    (DEFAULT, 0, 2_013, Lesson(window=2_013)),
    (DEFAULT, 50_000, 32_768, None),  # it has accepted more
    (WIDE, 0, 272_000, Lesson(input=272_000)),  # the window less the output: the input's share
    (CAPPED, 0, 272_000, None),
    (CAPPED, 0, 200_000, Lesson(window=200_000)),
]


@pytest.mark.parametrize(("limit", "accepted", "reported", "lesson"), LESSONS)
def test_what_a_refusal_teaches(limit: Limit, accepted: int, reported: int, lesson: Lesson | None) -> None:
    assert lesson_of(limit, accepted, reported) == lesson


def test_a_lesson_lowers_and_says_so() -> None:
    limit = lowered(WIDE, Lesson(window=100_000))
    assert (limit.context_size, limit.max_output_tokens, limit.source) == (100_000, 100_000, "learned")
    assert "configured 400000" in limit.detail
    assert lowered(WIDE, Lesson(input=272_000)).max_input_tokens == 272_000
    assert lowered(DEFAULT, Lesson(window=32_768)).trusted


def test_a_lesson_that_lowers_nothing_leaves_the_limit() -> None:
    assert lowered(WIDE, Lesson(window=500_000)) is WIDE
    assert lowered(CAPPED, Lesson(input=272_000)) is CAPPED
    assert lowered(WIDE, Lesson()) is WIDE


def test_two_lessons_and_their_disproof() -> None:
    lesson = lowest(Lesson(window=9_000), Lesson(window=8_000, input=7_000))
    assert lesson == Lesson(window=8_000, input=7_000)
    assert disproved(lesson, 7_001)
    assert not disproved(lesson, 7_000)
    assert not disproved(Lesson(), 10**9)


sizes = st.integers(1, 10**7)


@given(sizes, sizes, st.none() | sizes, sizes, sizes)
def test_no_lesson_raises_a_limit(size: int, output: int, cap: int | None, accepted: int, reported: int) -> None:
    limit = Limit(context_size=size, max_output_tokens=output, max_input_tokens=cap, source="bundled")
    lesson = lesson_of(limit, accepted, reported)
    if lesson:
        after = lowered(limit, lesson)
        assert after.context_size <= limit.context_size
        assert (after.max_input_tokens or after.context_size) <= (limit.max_input_tokens or size)
        assert after.context_size >= max(LEAST, accepted) or after.context_size == size


CONFIGURED = Limit(context_size=100_000, max_output_tokens=8_000, source="configured")


def lessons(ttl_s: float = 60.0) -> tuple[Lessons, Clock, list[Event]]:
    clock, events = Clock(), []
    return Lessons(ttl_s=ttl_s, clock=clock, notify=events.append), clock, events


def test_a_lesson_holds_for_its_time() -> None:
    book, clock, events = lessons()
    assert book.of("u", "m") is None
    assert book.learn("u", "m", DEFAULT, 32_768)
    assert book.of("u", "m") == Lesson(window=32_768)
    assert book.of("u", "other") is None
    clock.now += 61
    assert book.of("u", "m") is None
    assert [event.kind for event in events] == ["learned"]


def test_a_contradiction_with_the_configuration_is_an_event_of_its_own() -> None:
    book, _, events = lessons()
    book.learn("u", "m", CONFIGURED, 32_768)
    assert events[-1].kind == "learned_contradicts"


def test_an_impossible_limit_is_ignored_and_counted() -> None:
    book, _, events = lessons()
    assert not book.learn("u", "m", DEFAULT, 3)
    assert (book.of("u", "m"), events[-1].kind) == (None, "learned_ignored")


def test_a_larger_prompt_that_is_accepted_disproves() -> None:
    book, _, events = lessons()
    book.learn("u", "m", DEFAULT, 32_768)
    assert not book.note_accepted("u", "m", 30_000)
    assert book.note_accepted("u", "m", 40_000)
    assert (book.of("u", "m"), events[-1].kind) == (None, "learned_disproved")
    assert not book.learn("u", "m", DEFAULT, 32_768)


def test_replicas_take_over_what_the_other_learned() -> None:
    (one, _, _), (other, _, _) = lessons(), lessons()
    one.learn("u", "m", DEFAULT, 32_768)
    other.merge("u", "m", one.dump("u", "m"))
    assert other.of("u", "m") == Lesson(window=32_768)
    other.merge("u", "m", b"junk")
    other.merge("u", "m", Lessons(ttl_s=1, clock=Clock(), notify=lambda _: None).dump("u", "m"))
    assert other.of("u", "m") == Lesson(window=32_768)


def test_what_this_replica_saw_disproved_is_not_taken_over() -> None:
    (one, _, _), (other, _, _) = lessons(), lessons()
    one.learn("u", "m", DEFAULT, 32_768)
    other.note_accepted("u", "m", 90_000)
    other.merge("u", "m", one.dump("u", "m"))
    assert other.of("u", "m") is None


def test_hearing_it_again_from_the_store_does_not_prolong_it() -> None:
    book, clock, _ = lessons()
    book.learn("u", "m", DEFAULT, 32_768)
    clock.now += 40
    book.merge("u", "m", book.dump("u", "m"))
    clock.now += 30
    assert book.of("u", "m") is None
