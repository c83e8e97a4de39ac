"""Sequences joined are like one list of all their items."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.wire.joined import Joined

PARTS = st.lists(st.lists(st.integers(), max_size=4), max_size=5)
EDGES = st.none() | st.integers(-25, 25)


@given(PARTS, EDGES, EDGES, st.sampled_from([None, 1, 2, -1]))
def test_items_and_slices_are_those_of_a_list(
    parts: list[list[int]], start: int | None, stop: int | None, step: int | None
) -> None:
    joined, whole = Joined(parts), [item for part in parts for item in part]
    assert (len(joined), [*joined], bool(joined)) == (len(whole), whole, bool(whole))
    assert joined[start:stop:step] == whole[start:stop:step]
    for at in range(-len(whole), len(whole)):
        assert joined[at] == whole[at]
    for at in (len(whole), -len(whole) - 1):
        with pytest.raises(IndexError):
            joined[at]


@given(PARTS, st.lists(st.integers(), max_size=4))
def test_more_behind(parts: list[list[int]], more: list[int]) -> None:
    joined = Joined(parts)
    before = [*joined]
    assert joined.followed_by(more) == [*before, *more]
    assert joined == before


def test_equal_are_sequences_of_the_same_items() -> None:
    assert Joined([[1], [2, 3]]) == Joined([[1, 2], [3]]) == [1, 2, 3]
    assert Joined([[1]]) != [1, 2]
    assert Joined() != 7
