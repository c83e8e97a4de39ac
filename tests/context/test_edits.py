"""The values of a plan."""

from __future__ import annotations

import pytest

from trimtab.context.edits import Announcement, Breakdown, Edit, Edits, Gap, Plan

EDIT = Edit("cleared", 3, 100, 70, "old tool result")


@pytest.mark.parametrize(
    ("plan", "changes", "shaped"),
    [
        (Plan(9, 9, 9, True), False, False),
        (Plan(9, 9, 9, True, edits=(EDIT,)), True, True),
        (Plan(9, 9, 9, True, edits=(EDIT,), gap=Gap(1, 30)), True, True),
        (Plan(9, 9, 9, True, unpin=(2,)), True, False),
        (Plan(9, 9, 9, True, announce=Announcement(0, 42)), True, False),
    ],
)
def test_whether_anything_changes(plan: Plan, changes: bool, shaped: bool) -> None:
    assert (plan.changes, plan.shaped) == (changes, shaped)


def test_what_cannot_be_given_up_adds_up() -> None:
    assert Breakdown(system=1, tools=20, question=300).total == 321


def test_edits_are_a_tuple_that_keeps_what_was_summed_up() -> None:
    edits = Edits([Edit("cleared", 1, 90, 10, "r")])
    assert edits == (Edit("cleared", 1, 90, 10, "r"),)
    assert edits.sums is None
    edits.sums = {"cleared": 1}
    assert Edits(edits).sums is None
