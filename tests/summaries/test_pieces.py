"""Every entry is read once, in order, in calls that fit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trimtab.summaries.pieces import entry_tokens, next_step
from trimtab.summaries.render import Entry

segment = st.lists(st.builds(Entry, st.just("user"), st.text("abc é漢\n", max_size=400)), min_size=1, max_size=5)


@given(st.lists(segment, min_size=1, max_size=6), st.integers(60, 400))
def test_nothing_is_lost_nothing_is_read_twice_and_all_calls_fit(segments: list[list[Entry]], room: int) -> None:
    done, read = 0, []
    while done < len(segments):
        step = next_step(segments.__getitem__, done, len(segments), room)
        assert step.segments > done
        assert all(entry_tokens(piece) <= room for piece in step.pieces)
        assert all(step.pieces)
        done = step.segments
        read += [entry for piece in step.pieces for entry in piece]
    assert "".join(e.body for e in read) == "".join(e.body for s in segments for e in s)


def test_segments_that_fit_together_are_read_together() -> None:
    segments = [[Entry("user", "some words " * 20)] for _ in range(10)]
    one = entry_tokens(segments[0])
    assert next_step(segments.__getitem__, 0, 10, 10 * one).segments == 10
    assert next_step(segments.__getitem__, 0, 10, 4 * one).segments == 4
    assert next_step(segments.__getitem__, 0, 3, 10 * one).segments == 3


def test_only_what_is_needed_is_rendered() -> None:
    asked = []

    def segment(i: int) -> list[Entry]:
        asked.append(i)
        return [Entry("user", "some words " * 20)]

    next_step(segment, 3, 100, 2 * entry_tokens(segment(0)))
    assert asked == [0, 3, 4, 5]
