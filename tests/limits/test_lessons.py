"""Whom an overflow teaches, and for how long."""

import msgspec

from tests.support.clock import Clock
from trimtab.limits.events import Event
from trimtab.limits.lesson import Lesson
from trimtab.limits.lessons import Caller, Lessons
from trimtab.limits.limit import DEFAULT, Limit

CONFIGURED = Limit(context_size=100_000, max_output_tokens=8_000, source="configured")
ALICE, BOB, CAROL = Caller(b"alice"), Caller(b"bob"), Caller(b"carol")
SMALL = Lesson(window=32_768)


def lessons(ttl_s: float = 60.0, retry_s: float = 600.0) -> tuple[Lessons, Clock, list[Event]]:
    clock, events = Clock(), []
    return Lessons(ttl_s=ttl_s, clock=clock, notify=events.append, retry_s=retry_s, wall=clock), clock, events


def test_a_lesson_holds_for_its_time() -> None:
    book, clock, events = lessons()
    assert book.of("u", "m") is None
    assert book.learn("u", "m", DEFAULT, 32_768, agreed=True)
    assert book.of("u", "m") == SMALL
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


def test_all_lessons_together_are_bounded() -> None:
    """Models and tenants are named by clients. What was learned last stays."""
    book = Lessons(ttl_s=60.0, clock=Clock(), notify=lambda _: None, most=100)
    for n in range(20):
        for tenant in range(20):
            book.learn("u", f"m{n}", DEFAULT, 32_768 - tenant, Caller(b"%d" % tenant))
    assert sum(len(own) for own in book._own.values()) == 100
    assert book.of("u", "m19", Caller(b"19")) is not None
    assert ("u", "m0", b"") not in book._own


# -- whom it binds -----------------------------------------------------------------------------------------------


def test_one_tenants_error_binds_that_tenant_alone() -> None:
    book, _, _ = lessons()
    assert not book.learn("u", "m", DEFAULT, 32_768, ALICE)
    assert (book.of("u", "m", ALICE), book.of("u", "m", BOB), book.of("u", "m")) == (SMALL, None, None)
    assert msgspec.json.decode(book.dump("u", "m"))["window"] is None


def test_a_lesson_that_is_agreed_binds_everyone() -> None:
    book, _, _ = lessons()
    assert book.learn("u", "m", DEFAULT, 32_768, ALICE, agreed=True)
    assert book.of("u", "m", BOB) == SMALL


def test_two_tenants_agree_on_the_larger_number() -> None:
    book, _, _ = lessons()
    book.learn("u", "m", DEFAULT, 300, ALICE)
    assert book.learn("u", "m", DEFAULT, 32_768, BOB)
    assert [book.of("u", "m", who) for who in (ALICE, BOB, CAROL)] == [Lesson(window=300), SMALL, SMALL]
    assert not lessons()[0].learn("u", "m", DEFAULT, 300, ALICE)
    again = lessons()[0]
    for _ in range(2):
        assert not again.learn("u", "m", DEFAULT, 300, ALICE)


def test_a_route_teaches_itself_only() -> None:
    book, _, _ = lessons()
    routed = Caller(b"bob", b'["tiny-host"]')
    book.learn("u", "m", DEFAULT, 32_768, routed, agreed=True)
    assert (book.of("u", "m", routed), book.of("u", "m", BOB)) == (SMALL, None)
    assert book.of("u", "m", Caller(b"alice", b'["tiny-host"]')) == SMALL
    assert msgspec.json.decode(book.dump("u", "m"))["window"] is None


# -- how it ends -------------------------------------------------------------------------------------------------


def test_a_larger_prompt_that_is_accepted_disproves() -> None:
    book, _, events = lessons()
    book.learn("u", "m", DEFAULT, 32_768, agreed=True)
    assert not book.note_accepted("u", "m", 30_000)
    assert book.note_accepted("u", "m", 40_000)
    assert (book.of("u", "m"), events[-1].kind) == (None, "learned_disproved")


def test_another_tenants_larger_prompt_ends_what_is_shared_alone() -> None:
    book, _, _ = lessons()
    book.learn("u", "m", DEFAULT, 32_768, ALICE, agreed=True)
    assert book.note_accepted("u", "m", 40_000, BOB)
    assert (book.of("u", "m", BOB), book.of("u", "m", ALICE)) == (None, SMALL)
    book.note_accepted("u", "m", 40_000, ALICE)
    assert book.of("u", "m", ALICE) is None


def test_what_is_served_now_wins_over_what_was_once_taken() -> None:
    book, clock, _ = lessons()
    book.note_accepted("u", "m", 90_000)
    clock.now += 1
    assert book.learn("u", "m", DEFAULT, 32_768, agreed=True)
    assert book.of("u", "m") == SMALL
    assert book.learn("u", "m", DEFAULT, 65_536, agreed=True)
    assert book.of("u", "m") == Lesson(window=65_536)


def test_a_larger_listing_that_is_newer_takes_a_lesson_back_once() -> None:
    book, clock, events = lessons(ttl_s=600.0)
    book.learn("u", "m", DEFAULT, 8_000, ALICE, agreed=True)
    assert not book.note_listed("u", "m", 32_000, -1.0, ALICE)  # older than the lesson
    clock.now += 10
    assert not book.note_listed("u", "m", 8_000, clock.now, ALICE)
    assert book.of("u", "m", ALICE) == Lesson(window=8_000)
    assert book.note_listed("u", "m", 32_000, clock.now, ALICE)
    assert (book.of("u", "m", ALICE), book.of("u", "m"), events[-1].kind) == (None, None, "learned_disproved")
    book.learn("u", "m", DEFAULT, 8_000, ALICE, agreed=True)  # it was right, the listing is not
    clock.now += 10
    assert not book.note_listed("u", "m", 32_000, clock.now, ALICE)
    assert book.of("u", "m", ALICE) == Lesson(window=8_000)


def test_a_larger_request_is_let_through_now_and_then() -> None:
    book, clock, _ = lessons(ttl_s=86_400.0)
    assert not book.may_try_larger("u", "m")
    book.learn("u", "m", DEFAULT, 32_768, agreed=True)
    tries = []
    for passed in range(100, 6_001, 100):
        clock.now += 100
        if book.may_try_larger("u", "m"):
            tries.append(passed)
            book.learn("u", "m", DEFAULT, 32_768, agreed=True)
    assert tries == [600, 1_800, 4_200]


# -- refusals without a number -----------------------------------------------------------------------------------


def test_a_refusal_without_a_number_teaches_a_provisional_lesson() -> None:
    book, _, events = lessons()
    assert not book.learn_refused("u", "m", CONFIGURED, 30_000, ALICE)
    lesson = Lesson(input=30_000, provisional=True)
    assert (book.of("u", "m", ALICE), book.of("u", "m", BOB)) == (lesson, None)
    assert events[-1].kind == "learned_contradicts"
    assert book.learn_refused("u", "m", CONFIGURED, 40_000, BOB)
    assert book.of("u", "m", CAROL) == Lesson(input=40_000, provisional=True)
    book.learn("u", "m", CONFIGURED, 50_000, ALICE)
    assert book.of("u", "m", ALICE) == Lesson(window=50_000)  # the newest word, and Bob agrees


def test_a_refusal_at_more_than_the_limit_teaches_nothing() -> None:
    book, _, events = lessons()
    assert not book.learn_refused("u", "m", CONFIGURED, 100_000, ALICE)
    assert not book.learn_refused("u", "m", CONFIGURED, 100, ALICE)
    assert (book.of("u", "m", ALICE), events) == (None, [])


# -- replicas ----------------------------------------------------------------------------------------------------


def test_replicas_take_over_what_the_other_learned() -> None:
    (one, _, _), (other, _, _) = lessons(), lessons()
    one.learn("u", "m", DEFAULT, 32_768, agreed=True)
    other.merge("u", "m", one.dump("u", "m"))
    assert other.of("u", "m") == Lesson(window=32_768)
    other.merge("u", "m", b"junk")
    other.merge("u", "m", lessons()[0].dump("u", "m"))
    assert other.of("u", "m") == Lesson(window=32_768)


def test_what_this_replica_saw_disproved_is_not_taken_over() -> None:
    (one, _, _), (other, _, _) = lessons(), lessons()
    one.learn("u", "m", DEFAULT, 32_768, agreed=True)
    other.note_accepted("u", "m", 90_000)
    other.merge("u", "m", one.dump("u", "m"))
    assert other.of("u", "m") is None


def test_a_lesson_newer_than_what_this_replica_saw_accepted_is_taken_over() -> None:
    (one, clock, _), (other, _, _) = lessons(), lessons()
    other.note_accepted("u", "m", 90_000)
    clock.now += 1
    one.learn("u", "m", DEFAULT, 32_768, agreed=True)
    other.merge("u", "m", one.dump("u", "m"))
    assert other.of("u", "m") == SMALL


def test_hearing_it_again_from_the_store_does_not_prolong_it() -> None:
    book, clock, _ = lessons()
    book.learn("u", "m", DEFAULT, 32_768, agreed=True)
    clock.now += 40
    book.merge("u", "m", book.dump("u", "m"))
    clock.now += 30
    assert book.of("u", "m") is None
