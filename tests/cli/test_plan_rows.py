"""Folding a plan into rows: nothing is lost, few rows are left, and what goes stays apart from what is sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trimtab.cli.plan_rows import KINDS, by_kind, items, runs
from trimtab.context.edits import Edit, Plan
from trimtab.context.read.views import Call, View

SYSTEM = View(role="system", tokens=50)
USER = View(role="user", tokens=20)
SAID = View(role="assistant", tokens=30)


def cycle(number: int, tokens: int = 100) -> list[View]:
    """A call and its result."""
    call = View(role="assistant", tokens=10, calls=(Call(f"c{number}", "read"),))
    return [call, View(role="tool", tokens=tokens, answers=f"c{number}")]


def plan(*edits: Edit) -> Plan:
    return Plan(original=0, sent=0, budget=0, fits=True, edits=edits)


def dropped(index: int, tokens: int) -> Edit:
    return Edit("dropped", index, tokens, 0, "over")


def cleared(index: int, tokens: int) -> Edit:
    return Edit("cleared", index, tokens, 9, "over")


def test_items_tell_kind_fate_and_tokens_as_the_upstream_counts_them() -> None:
    views = [SYSTEM, USER, *cycle(0), SAID]
    listed = items(views, plan(cleared(3, 100)), lambda tokens: tokens * 2)
    assert [item.kind for item in listed] == ["system", "user", "tool calls", "tool results", "assistant"]
    assert [item.fate for item in listed] == ["kept", "kept", "kept", "cleared", "kept"]
    assert (listed[3].before, listed[3].after) == (200, 18)
    assert listed[2].tools == ("read",)


def test_cleared_inputs_count_as_cleared() -> None:
    edit = Edit("inputs_cleared", 0, 10, 5, "asked")
    assert items(cycle(0), plan(edit), int)[0].fate == "cleared"


def test_neighbours_that_fare_alike_stand_in_one_row() -> None:
    views = [SYSTEM, USER]
    for number in range(20):
        views += cycle(number)
    edits = [dropped(i, views[i].tokens) for i in range(2, 22)] + [cleared(23, 100)]
    rows = runs(views, items(views, plan(*edits), int), 10)
    assert [(row.items[0].index, row.items[-1].index) for row in rows] == [
        (0, 0),
        (1, 1),
        (2, 21),
        (22, 23),
        (24, 41),
    ]


def test_short_conversations_are_shown_unit_by_unit() -> None:
    views = [SYSTEM, USER, *cycle(0), *cycle(1)]
    assert len(runs(views, items(views, plan(), int), 30)) == 4


histories = st.lists(
    st.one_of(
        st.sampled_from([[USER], [SAID]]),
        st.builds(cycle, st.integers(0, 9), st.integers(0, 5000)),
    ),
    max_size=120,
).map(lambda parts: [SYSTEM, *(view for part in parts for view in part)])


@given(histories, st.data())
def test_every_message_is_in_exactly_one_row_and_rows_are_few(views: list[View], data: st.DataObject) -> None:
    gone = data.draw(st.integers(1, len(views)))
    listed = items(views, plan(*(dropped(i, views[i].tokens) for i in range(1, gone))), int)
    most = data.draw(st.integers(4, 30))
    rows = runs(views, listed, most)
    assert [item for row in rows for item in row.items] == listed
    assert len(rows) <= max(most, 4)
    assert sum(row.before for row in rows) == sum(view.tokens for view in views)


@given(histories)
def test_kinds_part_the_messages(views: list[View]) -> None:
    kinds = by_kind(items(views, plan(), int))
    assert sum(len(run.items) for run in kinds.values()) == len(views)
    assert list(kinds) == [kind for kind in KINDS if kind in kinds]
