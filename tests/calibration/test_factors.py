"""Factors by pair: priors, staleness, what replicas share, what is told."""

from tests.support.clock import Clock
from trimtab.calibration.factors import Calibrations
from trimtab.limits.events import Event


def factors() -> tuple[Calibrations, Clock, list[Event]]:
    clock, events = Clock(), []
    return Calibrations(clock=clock, notify=lambda *event: events.append(Event(*event))), clock, events


def test_a_prior_until_the_first_response() -> None:
    book, _, _ = factors()
    assert book.factor("u", "claude-x") == 1.5
    assert book.observe("u", "claude-x", 10_000, 13_000)
    assert 1.3 <= book.factor("u", "claude-x") < 1.37
    assert book.factor("other", "claude-x") == 1.5


def test_bad_usage_is_counted_and_changes_nothing() -> None:
    book, _, events = factors()
    for usage in (None, 0, -1, "many", 10**12, 3.5):
        assert not book.observe("u", "gpt-4o", 10_000, usage)
    assert [event.kind for event in events] == ["usage_ignored"] * 6
    assert book.factor("u", "gpt-4o") == 1.0


def test_usage_is_needed_while_unknown_stale_or_outgrown() -> None:
    book, clock, _ = factors()
    assert book.needs_usage("u", "m")
    for _ in range(5):
        assert book.needs_usage("u", "m")
        book.observe("u", "m", 10_000, 12_000)
    assert not book.needs_usage("u", "m", 12_000)
    assert book.needs_usage("u", "m", 13_000)
    clock.now += 301
    assert book.needs_usage("u", "m", 10_000)
    book.observe("u", "m", 10_000, 12_000)
    assert not book.needs_usage("u", "m", 10_000)


def test_moves_are_told_and_stillness_is_not() -> None:
    book, _, events = factors()
    for _ in range(20):
        book.observe("u", "m", 10_000, 12_000)
    assert [event.kind for event in events] == ["factor_moved"]


def test_a_replica_takes_over_what_is_ahead_of_it() -> None:
    (one, _, _), (other, _, _) = factors(), factors()
    for ratio in (1.0, 1.2, 1.4):
        one.observe("u", "m", 10_000, round(10_000 * ratio))
    shared = one.dump("u", "m")
    assert shared is not None
    other.observe("u", "m", 10_000, 10_000)
    other.merge("u", "m", shared)
    assert other.factor("u", "m") == one.factor("u", "m")
    behind = factors()[0]
    behind.observe("u", "m", 10_000, 9_000)
    one.merge("u", "m", behind.dump("u", "m") or b"")
    assert other.factor("u", "m") == one.factor("u", "m")


def test_what_cannot_be_read_is_no_state() -> None:
    book, _, _ = factors()
    for shared in (
        b"",
        b"junk",
        b"{}",
        b'{"seen":[],"follow":0,"step":3}',
        b'{"seen":[[0.1,9]],"follow":0,"step":900}',
    ):
        book.merge("u", "m", shared)
    assert book.state("u", "m") is None
    assert book.dump("u", "m") is None
