"""Carrying out a plan: what is named is changed, all else is the very object that came in."""

from __future__ import annotations

import json

import pytest

from tests.support.messages import assistant, calls, prose, result, system, user
from trimtab.context.apply.apply import apply
from trimtab.context.edits import Announcement, Edit, Gap, Plan
from trimtab.context.texts import ANNOUNCEMENT, JSON_WORD, NOTE, PLACEHOLDER, SUMMARY_PREFIX, SUMMARY_READ

RAWS = [system("S"), user("Begin."), calls("a"), result("a", prose(500)), assistant("Done."), user("And?")]


def made(plan: Plan, summary: str | None = None, role: str = "system") -> list[dict[str, object]]:
    return [json.loads(bytes(raw)) for raw in apply(RAWS, plan, summary, role)]


def test_an_empty_plan_gives_the_same_objects() -> None:
    assert all(a is b for a, b in zip(apply(RAWS, Plan(9, 9, 9, True)), RAWS, strict=True))
    assert apply([], Plan(0, 0, 9, True)) == []


def test_edited_messages_are_rewritten_and_the_others_kept() -> None:
    sent = apply(RAWS, Plan(9, 9, 9, True, edits=(Edit("cleared", 3, 9, 9, "r"),)))
    assert json.loads(bytes(sent[3]))["content"] == PLACEHOLDER
    assert all(sent[i] is RAWS[i] for i in (0, 1, 2, 4, 5))


GONE = (Edit("dropped", 2, 9, 0, "r"), Edit("dropped", 3, 9, 0, "r"))


@pytest.mark.parametrize("stage", ["dropped", "summarized"])
def test_what_is_gone_leaves_the_note(stage: str) -> None:
    edits = tuple(Edit(stage, i, 9, 0, "r") for i in (2, 3))  # type: ignore[arg-type]
    sent = made(Plan(9, 9, 9, True, edits=edits, gap=Gap(2, 30)))
    assert [m["content"] for m in sent] == ["S", "Begin.", NOTE, "Done.", "And?"]
    assert sent[2]["role"] == "system"


def test_or_the_summary() -> None:
    sent = made(Plan(9, 9, 9, True, edits=GONE, gap=Gap(2, 30)), "It went well.", "user")
    assert sent[2] == {"role": "user", "content": f"{SUMMARY_PREFIX}\nIt went well."}


def test_an_empty_summary_is_none() -> None:
    assert made(Plan(9, 9, 9, True, edits=GONE, gap=Gap(2, 30)), "")[2]["content"] == NOTE


def test_without_a_gap_nothing_stands_in_its_place() -> None:
    assert [m["content"] for m in made(Plan(9, 9, 9, True, edits=GONE))] == ["S", "Begin.", "Done.", "And?"]


def test_a_summary_that_an_answer_must_follow() -> None:
    gap = Gap(1, 30, note=False, answered=True)
    sent = made(Plan(9, 9, 9, True, edits=GONE, gap=gap), "Fine.", "user")
    assert [m["content"] for m in sent[1:3]] == [f"{SUMMARY_PREFIX}\nFine.", SUMMARY_READ]
    assert [m["role"] for m in sent[1:3]] == ["user", "assistant"]
    assert len(made(Plan(9, 9, 9, True, edits=GONE, gap=gap))) == len(sent) - 2


def test_a_gap_at_the_end() -> None:
    assert made(Plan(9, 9, 9, True, gap=Gap(6, 30)))[-1]["content"] == NOTE


def test_marks_go_and_the_announcement_comes() -> None:
    raws = [system("S", pinned=True), user("Begin.", pinned=True)]
    sent = [json.loads(bytes(m)) for m in apply(raws, Plan(9, 9, 9, True, unpin=(0, 1), announce=Announcement(0, 42)))]
    assert sent == [{"role": "system", "content": "S" + ANNOUNCEMENT}, {"role": "user", "content": "Begin."}]


def test_an_announcement_of_its_own_stands_before_the_note_and_takes_the_word_json() -> None:
    raws = [system(7), assistant("Hello."), user("Begin.")]
    plan = Plan(
        9,
        9,
        9,
        True,
        edits=(Edit("dropped", 1, 5, 0, ""),),
        gap=Gap(1, 30),
        announce=Announcement(1, 42, own=True),
    )
    assert [json.loads(bytes(m)) for m in apply(raws, plan)] == [
        {"role": "system", "content": 7},
        {"role": "system", "content": ANNOUNCEMENT.strip()},
        {"role": "system", "content": NOTE},
        {"role": "user", "content": "Begin."},
    ]
    first = apply(raws[2:], Plan(9, 9, 9, True, announce=Announcement(0, 42, own=True), json_word=True))[0]
    assert json.loads(bytes(first))["content"] == f"{ANNOUNCEMENT.strip()}\n\n{JSON_WORD}"


def test_edit_and_mark_on_one_message() -> None:
    raws = [result("a", prose(500), pinned=True)]
    plan = Plan(9, 9, 9, True, edits=(Edit("squeezed", 0, 9, 9, "r", 200),), unpin=(0,))
    (sent,) = (json.loads(bytes(m)) for m in apply(raws, plan))
    assert len(sent["content"]) <= 200
    assert "pinned" not in sent
