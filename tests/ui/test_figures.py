"""Figures of a plan: kinds that add up to what is sent, and the fate of each message."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.conversations import agent_run, chat, prose
from tests.support.planned import planned
from trimtab.ui.figures import by_kind, cut, messages, sketch

BIG = [*chat(2), {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "x " * 40_000}]
CASES = [
    ("fits", agent_run(3), {}),
    ("cleared", agent_run(40), {}),
    ("extracts of results", agent_run(40), {"result_extract": 40}),
    ("dropped", chat(60), {}),
    ("dropped, with an extract", chat(60), {"extract_share": 0.1}),
    ("cycles dropped, with an extract", agent_run(400, 60), {"extract_share": 0.1}),
    ("truncated", BIG, {"max_message_chars": 5_000}),
    ("announced", agent_run(40), {"announce": True}),
    ("no system message", agent_run(40)[1:], {}),
]


@pytest.mark.parametrize(("conversation", "settings"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
@pytest.mark.parametrize("factor", [1.0, 1.37])
def test_the_kinds_add_up_to_what_is_sent(
    conversation: list[dict[str, Any]], settings: dict[str, Any], factor: float
) -> None:
    shaping = planned(conversation, factor=factor, **settings)
    kinds = by_kind(sketch(shaping))
    assert sum(kinds.values()) == shaping.counted(shaping.plan.sent)
    assert min(kinds.values()) >= 0
    assert (kinds["extract"] > 0) is bool(shaping.plan.gap and shaping.plan.gap.extract)
    assert (kinds["summary"] > 0) is (shaping.plan.gap is not None)


def test_a_system_prompt_beside_the_messages_is_of_the_kind_system() -> None:
    shaping = planned(agent_run(3)[1:])
    beside = msgspec.structs.replace(shaping.history, extras=900, instructions=700, tokens=shaping.history.tokens + 900)
    kinds = by_kind(sketch(msgspec.structs.replace(shaping, history=beside)))
    assert (kinds["system"], kinds["tools"]) == (700, 200)


def test_each_message_has_its_kind_and_its_fate() -> None:
    shaping = planned(agent_run(40))
    rows = [*messages(sketch(shaping))]
    assert [row.kind for row in rows[:4]] == ["system", "task", "talk", "results"]
    assert len(rows) == 82
    edited = {i: row for i, row in enumerate(rows) if row.stage}
    assert {i: row.stage for i, row in edited.items()} == {e.index: e.stage for e in shaping.plan.edits}
    assert all(row.reason and row.after < row.before for row in edited.values())
    assert sum(row.after for row in rows) == shaping.plan.sent


def test_a_greeting_before_the_task_is_talk_and_the_task_is_all_before_the_answer() -> None:
    history = [
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "A reminder."},
        {"role": "user", "content": "The task."},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "Thanks."},
    ]
    assert [row.kind for row in messages(sketch(planned(history)))] == ["talk", "task", "task", "talk", "talk"]


def test_the_cut_says_how_many_went_and_what_is_kept_of_them() -> None:
    note = cut(sketch(planned(chat(60), extract_share=0.0)))
    extract = cut(sketch(planned([*chat(60)[:-1], {"role": "user", "content": prose(30)}], extract_share=0.1)))
    assert note is not None
    assert extract is not None
    assert (note.kept_as, extract.kept_as) == ("note", "extract")
    assert note.index == extract.index == 2
    assert note.messages > 50
    assert extract.tokens > note.tokens > 0
    assert cut(sketch(planned(agent_run(40)))) is None
