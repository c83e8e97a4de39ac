"""Plans of recorded conversations, compared with those that were looked at and found good."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.context.golden import GOLDEN, PLANS, drawn


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_plan(name: str, shared: Path) -> None:
    """A change that is meant: `python -m tests.context.golden`, and look at the difference."""
    assert drawn(name, shared / "corpus") == (PLANS / f"{name}.txt").read_text()


def test_no_golden_plan_is_left_over() -> None:
    assert {path.stem for path in PLANS.iterdir()} == set(GOLDEN)
