"""The breaker's states, by a clock that the test moves."""

from __future__ import annotations

from tests.support.clock import Clock
from trimtab.store.breaker import Breaker

START = Clock().now


def opened(clock: Clock) -> Breaker:
    breaker = Breaker(threshold=3, pause_s=1, longest_s=8, clock=clock)
    for _ in range(3):
        breaker.failed()
    return breaker


def test_fewer_failures_than_the_threshold_leave_it_closed() -> None:
    breaker = Breaker(threshold=3)
    breaker.failed()
    breaker.failed()
    assert breaker.closed
    assert breaker.failures == 2


def test_a_success_forgets_the_failures_before_it() -> None:
    breaker = Breaker(threshold=3)
    for _ in range(10):
        breaker.failed()
        breaker.failed()
        breaker.succeeded()
    assert breaker.closed


def test_open_admits_one_call_a_pause() -> None:
    clock = Clock()
    breaker = opened(clock)
    assert not breaker.admits()
    clock.now = START + 1
    assert [breaker.admits() for _ in range(5)] == [True, False, False, False, False]


def test_a_trial_that_never_comes_back_is_followed_by_another() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = START + 1
    assert breaker.admits()
    clock.now = START + 2
    assert breaker.admits()


def test_failed_trials_double_the_pause_up_to_its_bound() -> None:
    clock, pauses = Clock(), []
    breaker = opened(clock)
    for _ in range(6):
        start = clock.now
        while not breaker.admits():
            clock.now += 0.5
        pauses.append(clock.now - start)
        breaker.failed()
    assert pauses == [1, 2, 4, 8, 8, 8]


def test_failures_of_calls_under_way_when_it_opened_do_not_count() -> None:
    clock = Clock()
    breaker = opened(clock)
    for _ in range(30):
        breaker.failed()
    clock.now = START + 1
    assert breaker.admits()


def test_after_a_good_trial_one_failure_opens_it_again_and_one_success_heals_it() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = START + 1
    assert breaker.admits()
    breaker.succeeded()
    assert breaker.closed
    breaker.failed()
    assert not breaker.closed
    clock.now = START + 3
    assert breaker.admits()
    breaker.succeeded()
    breaker.succeeded()
    breaker.failed()
    assert breaker.closed


def test_with_forget_s_a_success_forgets_only_what_is_older() -> None:
    clock = Clock()
    breaker = Breaker(threshold=3, forget_s=1, clock=clock)
    for _ in range(2):
        breaker.failed()
        breaker.succeeded()
    assert breaker.failures == 2
    clock.now = START + 1
    breaker.succeeded()
    assert breaker.failures == 0
