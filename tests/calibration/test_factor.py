"""One factor from what was seen: follows one conversation, holds still among many, doubts what jumps."""

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.calibration.factor import GRID, MARGIN, FactorState, believed, observe

HIGHEST = GRID * (1 + MARGIN) * 1.001  # an applied factor lies at most this far above what it is made from

BELIEVED = [
    (1_000, 1_700, 1_700),
    (50_000, 180_000, 180_000),  # a tokenizer 3.6 times ours has been seen
    (1_000, 0, None),
    (1_000, -5, None),
    (1_000, None, None),
    (1_000, "900", None),
    (1_000, 900.0, None),
    (1_000, True, None),
    (1_000, 10**12, None),
    (1_000, 100, None),
    (1_000, 11_000, None),
    (0, 100, None),
]


@pytest.mark.parametrize(("estimated", "actual", "want"), BELIEVED)
def test_what_is_believed(estimated: int, actual: object, want: int | None) -> None:
    assert believed(estimated, actual) == want


def fed(pairs: list[tuple[int, float]]) -> list[FactorState]:
    """The states after each (estimated, ratio)."""
    states: list[FactorState] = []
    state = None
    for estimated, ratio in pairs:
        state = observe(state, estimated, round(estimated * ratio))
        assert state is not None
        states.append(state)
    return states


def test_the_first_response_sets_the_factor_and_rounds_up() -> None:
    (state,) = fed([(1_000, 1.7)])
    assert 1.7 < state.factor < 1.7 * HIGHEST
    assert not state.settled


def test_a_steady_conversation_moves_nothing() -> None:
    states = fed([(1_000 + 500 * i, 1.3 + 0.002 * (i % 3)) for i in range(50)])
    assert {state.step for state in states} == {states[0].step}
    assert states[-1].settled
    assert states[-1].coherent


def test_an_estimate_too_low_is_corrected_at_once() -> None:
    states = fed([(10_000, 1.0)] * 10 + [(12_000, 1.2)])
    assert states[-1].factor >= 1.15
    assert fed([(10_000, 1.0)] * 10 + [(12_000, 1.2)] * 2)[-1].factor >= 1.2 * 0.99


def test_one_that_is_clearly_too_high_comes_down() -> None:
    states = fed([(10_000, 1.5)] * 3 + [(20_000, 1.2)] * 3)
    assert 1.2 <= states[-1].factor <= 1.2 * HIGHEST


def test_a_jump_beyond_reason_must_be_seen_twice() -> None:
    calm = [(10_000, 1.0)] * 8
    assert fed([*calm, (10_000, 5.0)])[-1].step == fed(calm)[-1].step
    assert fed([*calm, (10_000, 5.0), (10_000, 1.0)])[-1].step == fed(calm)[-1].step
    assert fed([*calm, (10_000, 2.0), (10_000, 2.0)])[-1].factor >= 2.0


def test_a_refusal_that_counted_the_request_lifts_the_factor_in_any_case() -> None:
    ratios = itertools.cycle([0.9, 1.1, 1.0, 1.2, 0.95, 1.15])
    mixed = fed([(20_000, next(ratios)) for _ in range(60)])[-1]
    after = observe(mixed, 20_000, 27_000, refused=True)
    assert after is not None
    assert after.factor >= 1.35


def test_small_requests_say_nothing() -> None:
    assert observe(None, 20, 60) is None
    states = fed([(40_000, 1.0)] * 6)
    assert observe(states[-1], 300, 900) is states[-1]


def test_among_many_conversations_it_stands_high_and_still() -> None:
    ratios = itertools.cycle([0.9, 1.1, 1.0, 1.2, 0.95, 1.15])
    states = fed([(20_000, next(ratios)) for _ in range(120)])
    assert not states[-1].coherent
    assert len({state.step for state in states[40:]}) == 1
    assert 1.1 <= states[-1].factor <= 1.2 * HIGHEST


def test_the_factor_is_clamped() -> None:
    assert fed([(10_000, 9.0)])[-1].factor <= 4.0 * GRID
    assert fed([(10_000, 0.2)])[-1].factor >= 0.5 / GRID


ratios = st.floats(0.25, 8.0)


@given(st.lists(st.tuples(st.integers(64, 10**6), ratios), min_size=1, max_size=60))
def test_the_state_is_bounded_on_the_grid_and_survives_the_store(pairs: list[tuple[int, float]]) -> None:
    state = None
    for estimated, ratio in pairs:
        state = observe(state, estimated, round(estimated * ratio))
    assert state is not None
    assert state.factor == GRID**state.step
    assert 0.5 / GRID <= state.factor <= 4.0 * GRID
    assert len(state.seen) <= 48
    assert msgspec.json.decode(msgspec.json.encode(state), type=FactorState) == state


@given(st.floats(0.3, 4.0), st.lists(st.floats(0.985, 1.0), max_size=30))
def test_what_varies_within_the_band_moves_at_most_once(level: float, noise: list[float]) -> None:
    pairs = [(10_000 + 100 * i, level * n) for i, n in enumerate([1.0, *noise])]
    assert len({state.step for state in fed(pairs)}) <= 2
