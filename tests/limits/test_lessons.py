"""Learned limits by pair: their time, their disproof, and what is told."""

from tests.support.clock import Clock
from trimtab.limits.events import Event
from trimtab.limits.learned import Learned
from trimtab.limits.lessons import Lessons
from trimtab.limits.limit import DEFAULT, Limit

CONFIGURED = Limit(context_size=100_000, max_output_tokens=8_000, source="configured")


def lessons(ttl_s: float = 60.0) -> tuple[Lessons, Clock, list[Event]]:
    clock, events = Clock(), []
    return Lessons(ttl_s=ttl_s, clock=clock, notify=events.append), clock, events


def test_a_lesson_holds_for_its_time() -> None:
    book, clock, events = lessons()
    assert book.of("u", "m") is None
    assert book.learn("u", "m", DEFAULT, 32_768, False)
    assert book.of("u", "m") == Learned(window=32_768)
    assert book.of("u", "other") is None
    clock.now += 61
    assert book.of("u", "m") is None
    assert [event.kind for event in events] == ["learned"]


def test_a_contradiction_with_the_configuration_is_told_apart() -> None:
    book, _, events = lessons()
    book.learn("u", "m", CONFIGURED, 32_768, False)
    assert events[-1].kind == "learned_contradicts"
    assert events[-1].detail == "configured 100000, the upstream takes 32768"


def test_nonsense_is_ignored_and_counted() -> None:
    book, _, events = lessons()
    assert not book.learn("u", "m", DEFAULT, 3, False)
    assert (book.of("u", "m"), events[-1].kind) == (None, "learned_ignored")


def test_a_larger_request_that_succeeds_disproves() -> None:
    book, _, events = lessons()
    book.learn("u", "m", DEFAULT, 32_768, False)
    assert not book.taken("u", "m", 30_000)
    assert book.taken("u", "m", 40_000)
    assert (book.of("u", "m"), events[-1].kind) == (None, "learned_disproved")
    assert not book.learn("u", "m", DEFAULT, 32_768, False)


def test_replicas_take_over_what_the_other_learned() -> None:
    (one, _, _), (other, _, _) = lessons(), lessons()
    one.learn("u", "m", DEFAULT, 32_768, False)
    other.merge("u", "m", one.dump("u", "m"))
    assert other.of("u", "m") == Learned(window=32_768)
    other.merge("u", "m", b"junk")
    other.merge("u", "m", Lessons(ttl_s=1, clock=Clock(), notify=lambda _: None).dump("u", "m"))
    assert other.of("u", "m") == Learned(window=32_768)


def test_what_this_replica_saw_disproved_is_not_taken_over() -> None:
    (one, _, _), (other, _, _) = lessons(), lessons()
    one.learn("u", "m", DEFAULT, 32_768, False)
    other.taken("u", "m", 90_000)
    other.merge("u", "m", one.dump("u", "m"))
    assert other.of("u", "m") is None


def test_hearing_it_again_from_the_store_does_not_prolong_it() -> None:
    book, clock, _ = lessons()
    book.learn("u", "m", DEFAULT, 32_768, False)
    clock.now += 40
    book.merge("u", "m", book.dump("u", "m"))
    clock.now += 30
    assert book.of("u", "m") is None
