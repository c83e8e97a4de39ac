"""The picture of a plan: what a row holds, and what happens to it."""

from __future__ import annotations

from collections import Counter

import pytest

from trimtab.cli.plan_picture import content, fates, place
from trimtab.cli.plan_rows import Item, Run


def result(index: int, *tools: str, kind: str = "tool results") -> Item:
    return Item(index, kind, "kept", 10, 10, tools)


@pytest.mark.parametrize(
    ("run", "printed", "narrow"),
    [
        (Run((result(0, kind="user"),)), "user", "user"),
        (Run((result(0, kind="tool results"),)), "tool result", "tool result"),
        (
            Run((result(0, "read", kind="tool calls"), result(1))),
            "1 call, 1 result: read",
            "2 messages: read",
        ),
        (
            Run((result(0, "a", "b", "c", "d", "d", kind="tool calls"), result(1))),
            "1 call, 1 result: d ×2, a, b, and more",
            "2 messages: d ×2, a, b, and more",
        ),
    ],
)
def test_a_row_says_what_it_holds(run: Run, printed: str, narrow: str) -> None:
    assert content(run) == printed
    assert content(run, narrow=True) == narrow


def test_places_are_indexes_of_the_request() -> None:
    assert place(Run((result(3),))) == "3"
    assert place(Run((result(3), result(4), result(5)))) == "3-5"


@pytest.mark.parametrize(
    ("counts", "printed"),
    [
        ({"kept": 3}, "kept"),
        ({"dropped": 1}, "dropped"),
        ({"kept": 3, "cleared": 2}, "cleared 2"),
        ({"dropped": 1, "cleared": 2}, "cleared 2, dropped 1"),
    ],
)
def test_what_happens_leaves_out_what_is_kept(counts: dict[str, int], printed: str) -> None:
    assert fates(Counter(counts)).plain == printed  # type: ignore[arg-type]
