"""What becomes of one message, and what stands in the gap."""

from __future__ import annotations

import json

from tests.support.messages import calls, prose, result, system, user
from trimtab.context.apply.again import Change
from trimtab.context.apply.format import CHAT
from trimtab.context.apply.origins import NOWHERE
from trimtab.context.apply.writing import ANNOUNCEMENT_ALONE, GAP, Writing
from trimtab.context.edits import Announcement, Edit, Gap, Plan
from trimtab.context.read.memo import Memo
from trimtab.context.texts import ANNOUNCEMENT, NOTE, SUMMARY_PREFIX
from trimtab.dialects.messages.writing import FORMAT as MESSAGES

RAWS = [system("S"), user("Begin."), calls("a"), result("a", prose(500)), user("And?")]
MEMO = Memo()
VIEWS = MEMO.views(RAWS)
CLEARED = Edit("cleared", 3, 9, 9, "r", 20)


def writing(summary: str | None = None, *, format: object = CHAT, **plan: object) -> Writing:
    made = Plan(9, 9, 9, True, **plan)  # type: ignore[arg-type]
    return Writing(RAWS, made, summary, "system", format, VIEWS, MEMO)  # type: ignore[arg-type]


def test_a_message_that_is_not_changed_is_the_object_that_came_in() -> None:
    one = writing(edits=(CLEARED,))
    assert one.change(1, None) is None
    assert one.message(1, None) is RAWS[1]


def test_all_that_is_done_to_a_message_is_one_change() -> None:
    one = writing(edits=(CLEARED,), unpin=(3, 4), unbind=(3,))
    assert one.change(3, CLEARED) == Change("cleared", 20, unpin=True, unbind=True)
    assert one.change(4, None) == Change(None, unpin=True)
    assert one.changed == {3, 4}
    assert one.last == 4


def test_the_announcement_joins_a_message_or_stands_alone() -> None:
    joined = writing(announce=Announcement(0, 9))
    assert joined.change(0, None) == Change(None, announce=True)
    assert json.loads(bytes(joined.message(0, joined.change(0, None))))["content"].endswith(ANNOUNCEMENT)
    alone = writing(announce=Announcement(1, 9, own=True))
    assert alone.own == {ANNOUNCEMENT_ALONE: 1}
    assert [json.loads(each)["content"] for each in alone.of_own(ANNOUNCEMENT_ALONE)] == [ANNOUNCEMENT.strip()]
    assert writing(announce=Announcement(0, 9), format=MESSAGES).changed == frozenset()


def test_the_gap() -> None:
    assert writing(gap=Gap(2, 9)).own == {GAP: 2}
    assert writing(gap=Gap(2, 9, note=False)).own == {}
    (note,), (summary,) = (writing(text, gap=Gap(2, 9)).of_own(GAP) for text in (None, "Fine."))
    assert json.loads(note)["content"] == NOTE
    assert json.loads(summary)["content"] == f"{SUMMARY_PREFIX}\nFine."


def test_what_joins_a_message_is_written_each_time() -> None:
    one = writing(gap=Gap(2, 9, into=1))
    assert (one.own, one.changed) == ({}, {1})
    assert json.loads(bytes(one.message(1, None)))["content"] == f"Begin.\n\n{NOTE}"
    assert one.origins(1, None) is NOWHERE


def test_origins_are_known_once_it_was_written() -> None:
    one = writing(edits=(CLEARED,))
    change = one.change(3, CLEARED)
    assert one.origins(3, change) is None
    first = one.message(3, change)
    assert one.message(3, change) == first
    assert one.origins(3, change) is not None
