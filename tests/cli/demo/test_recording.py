"""The recording that ships, and which of its requests are made."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.cli.demo.recording import load, paced, spread


def test_the_recording_is_one_long_run_of_tool_calls() -> None:
    recording = load()
    roles = [message["role"] for message in recording.messages]
    assert roles[:2] == ["system", "user"]
    assert roles.count("user") == 1
    assert len(recording.steps) == 367
    assert all(roles[step] == "assistant" and roles[step - 1] in ("user", "tool") for step in recording.steps)


@pytest.mark.parametrize(
    ("number", "taken"),
    [(None, [1, 2, 3, 4, 5]), (9, [1, 2, 3, 4, 5]), (5, [1, 2, 3, 4, 5]), (3, [1, 3, 5]), (2, [1, 5]), (1, [5])],
)
def test_requests_are_spread_from_the_first_to_the_last(number: int | None, taken: list[int]) -> None:
    assert spread([10, 20, 30, 40, 50], number) == [(n, n * 10) for n in taken]


class Clock:
    """Each step takes `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.now, self._seconds = 0.0, seconds

    def __call__(self) -> float:
        self.now += self._seconds
        return self.now


STEPS = [(n, n) for n in range(1, 368)]


def test_a_quick_machine_makes_every_request() -> None:
    assert list(paced(STEPS, 40.0, Clock(0.05))) == STEPS


@given(st.floats(0.12, 5.0))
def test_a_slow_machine_leaves_some_out_but_not_the_last(seconds: float) -> None:
    clock = Clock(seconds)
    made = list(paced(STEPS, 40.0, clock))
    assert made[0] == STEPS[0]
    assert made[-1] == STEPS[-1]
    assert all(a < b for a, b in pairwise(made))
    assert clock.now < 40 * 1.3 + seconds * 20
