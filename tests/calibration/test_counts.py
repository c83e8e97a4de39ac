"""What one count of a conversation predicts about its next request, and only about that."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.conversations import agent_run, chat, cycle
from trimtab.calibration.counts import NO_COUNT, Count, Counts, LastCount, counted, factor_of, near
from trimtab.context.read.history import History, history
from trimtab.context.read.memo import Memo

RUN = agent_run(11)  # about 5,900 tokens
COUNT = Count(1.2, tokens=7_000)


def read(messages: list[Any], *extras: Any) -> History:
    return history([*map(msgspec.json.encode, messages)], [*map(msgspec.json.encode, extras)], Memo())


def having_counted(messages: list[Any], count: Count = COUNT) -> Counts:
    counts = Counts()
    counts.remember("up", "m", read(messages), count)
    return counts


def test_the_next_request_of_a_conversation_is_known_by_its_beginning() -> None:
    counts = having_counted(RUN)
    later = counts.find("up", "m", read([*RUN, *cycle(99, 300)]))
    assert counts.find("up", "m", read(RUN)) == LastCount(COUNT, 0)
    assert later.count == COUNT
    assert 300 < later.new < 350


TOOLS = [{"type": "function", "function": {"name": "read"}}]
OTHERS: list[tuple[str, str, History]] = [
    ("other", "m", read(RUN)),
    ("up", "other", read(RUN)),
    ("up", "m", read([*RUN[:-1], {**RUN[-1], "content": "edited"}])),
    ("up", "m", read(RUN[:-2])),
    ("up", "m", read(RUN, TOOLS)),
    ("up", "m", read([*RUN, *(m for n in range(40) for m in cycle(n, 1))])),
]


@pytest.mark.parametrize(
    ("upstream", "model", "other"),
    OTHERS,
    ids=["upstream", "model", "edited", "shorter", "other tools", "too long since"],
)
def test_any_other_request_is_not_known(upstream: str, model: str, other: History) -> None:
    assert having_counted(RUN).find(upstream, model, other) == NO_COUNT


@pytest.mark.parametrize("tokens", [0, -1, 1, 10**9])
def test_a_count_that_cannot_be_true_is_not_believed(tokens: int) -> None:
    assert counted(5_900, tokens, None) is None


def test_a_count_of_a_shaped_request_keeps_the_factor_and_not_the_tokens() -> None:
    assert counted(5_000, 6_000, None) == Count(1.2, tokens=6_000)
    assert counted(5_000, 6_000, 1.05) == Count(1.2, factor=1.05)


def test_a_conversation_far_from_its_budget_needs_no_count() -> None:
    assert near(read(RUN), 1.0, 7_168)
    assert not near(read(chat(2)), 1.0, 7_168)
    assert near(read(chat(2)), 4.0, 7_168)


GRID = 1.025
FACTORS: list[tuple[Count | None, float]] = [
    (None, 1.3),
    (Count(1.0, factor=1.05), 1.05),
    (Count(1.05, factor=1.05), 1.05),
    (Count(0.90, factor=1.05), 1.05),
    (Count(0.80, factor=1.05), GRID**-8),  # room is wasted
    (Count(1.20, factor=1.05), GRID**8),  # would be refused
    (Count(1.0, tokens=6_000), GRID),
    (Count(1.5, tokens=6_000), GRID**18),
]


@pytest.mark.parametrize(("count", "factor"), FACTORS)
def test_the_factor_begun_with_is_kept_while_the_counts_bear_it(count: Count | None, factor: float) -> None:
    assert factor_of(LastCount(count), 1.3) == pytest.approx(factor)


def test_where_thinking_is_bound_room_is_wasted_rather_than_what_was_sent_changed() -> None:
    wasted, refused = Count(0.80, factor=1.05), Count(1.20, factor=1.05)
    assert factor_of(LastCount(wasted), 1.3, binds_thinking=True) == 1.05
    assert factor_of(LastCount(refused), 1.3, binds_thinking=True) == pytest.approx(GRID**8)


def test_a_new_factor_is_never_below_what_was_counted() -> None:
    for ratio in (0.5, 0.9, 1.0, 1.01, 1.3, 2.0):
        factor = factor_of(LastCount(Count(ratio, tokens=1)), 1.0)
        assert ratio < factor < ratio * 1.05
