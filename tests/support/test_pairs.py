"""What the receiving side of a shaped request checks."""

from __future__ import annotations

import pytest

from tests.support.messages import assistant, calls, msg, result, system, user
from tests.support.pairs import broken_pairs, starts_with_assistant
from trimtab.context.read.memo import Memo

BROKEN: dict[str, tuple[list[bytes], int]] = {
    "nothing": ([], 0),
    "whole": ([user(), calls("a", "b"), result("b"), result("a"), user()], 0),
    "whole, ids used again": ([calls("a"), result("a"), calls("a"), result("a")], 0),
    "whole, two callers first": ([calls("a"), calls("b"), result("a"), result("b")], 0),
    "an orphan": ([user(), result("a")], 1),
    "an orphan after its id was answered by nobody": ([result("a"), calls("a"), result("a")], 1),
    "no result": ([calls("a"), user()], 1),
    "one result of two": ([calls("a", "b"), result("a")], 1),
    "a result twice": ([calls("a"), result("a"), result("a")], 1),
}


@pytest.mark.parametrize(("raws", "expected"), BROKEN.values(), ids=BROKEN)
def test_broken_pairs(raws: list[bytes], expected: int) -> None:
    assert broken_pairs(Memo().views(raws)) == expected


@pytest.mark.parametrize(
    ("raws", "expected"),
    [
        ([], False),
        ([assistant()], True),
        ([system(), msg("developer"), assistant(), user()], True),
        ([system(), user(), assistant()], False),
        ([result("a"), assistant()], False),
    ],
)
def test_starts_with_assistant(raws: list[bytes], expected: bool) -> None:
    assert starts_with_assistant(Memo().views(raws)) is expected
