"""Where roles must alternate: where the note and the summary stand, and which answers stay."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tests.context.plans import planned, staged, tokens
from tests.support.messages import assistant, calls, prose, result, roles, system, tool_loop, user
from trimtab.context.apply.apply import apply
from trimtab.context.edits import Gap, Plan
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.context.texts import NOTE, SUMMARY_PREFIX, SUMMARY_READ


def strict(**shaping: object) -> Policy:
    return Policy(ShapingSettings(**shaping), strict_roles=True)  # type: ignore[arg-type]


def as_sent(raws: Sequence[bytes], plan: Plan, summary: str | None = None) -> list[tuple[str, str]]:
    sent = [json.loads(bytes(raw)) for raw in apply(raws, plan, summary, "user")]
    return [(m["role"], m["content"]) for m in sent]


def turn(k: int) -> list[bytes]:
    return [user(f"Q{k} {prose(300)}"), assistant(f"A{k} {prose(300)}")]


CHAT = [system("S"), user("Task."), assistant("A0"), *turn(1), *turn(2), *turn(3), user("And?")]


def test_the_note_is_said_in_the_task() -> None:
    found = planned(CHAT, strict(keep_recent=1, target=0.8), tokens(CHAT) - 1)
    sent = as_sent(CHAT, found)
    assert found.gap is not None
    assert found.gap.into == 1
    assert sent[1] == ("user", f"Task.\n\n{NOTE}")
    assert [role for role, _ in sent] == ["system", *["user", "assistant"] * (len(sent) // 2 - 1), "user"]


def test_the_answer_before_the_first_kept_question_is_kept() -> None:
    found = planned(CHAT, strict(keep_recent=1, target=0.1), tokens(CHAT) // 2)
    assert staged(found) == {"dropped": [2, 3, 4, 5, 6, 7]}
    assert [role for role, _ in as_sent(CHAT, found)] == ["system", "user", "assistant", "user"]


def test_so_is_the_summary() -> None:
    rules = Policy(ShapingSettings(keep_recent=1, segment_share=0.3), True, summary_tokens=20, strict_roles=True)
    found = planned(CHAT, rules, tokens(CHAT) - 1)
    assert found.summary
    assert as_sent(CHAT, found, "It went well.")[1] == ("user", f"Task.\n\n{SUMMARY_PREFIX}\nIt went well.")


def test_the_question_itself_stays_as_it_is() -> None:
    """One long turn: the task is the current question. The note is left out; the assistant has the summary."""
    raws = [system("S"), user("Task."), *tool_loop(12, 600)]
    found = planned(raws, strict(exclude_tools=("read_file",)), tokens(raws) // 2)
    assert found.gap is not None
    assert as_sent(raws, found)[1] == ("user", "Task.")
    assert as_sent(raws, found)[2][0] == "assistant"
    assert NOTE not in str(as_sent(raws, found))
    assert as_sent(raws, found, "Fine.")[2] == ("assistant", f"{SUMMARY_PREFIX}\nFine.")


def test_without_the_task_the_next_question_says_it() -> None:
    raws = [user(prose(900)), *CHAT[2:-1], *turn(4), user("And?")]
    found = planned(raws, strict(pin_share=0.05, target=0.8, keep_recent=1), tokens(raws) * 2 // 3)
    assert found.gap is not None
    assert staged(found)["dropped"][0] == 0
    first = as_sent(raws, found)[0]
    assert first[0] == "user"
    assert first[1].startswith(NOTE)


def test_too_little_goes_for_a_note_and_still_no_answer_comes_first() -> None:
    raws = [user("ok?"), assistant("?"), user("?")]
    found = planned(raws, strict(), tokens(raws) - 3)
    assert as_sent(raws, found) == [("user", "?")]


def test_an_array_gets_a_part() -> None:
    raws = [user([{"type": "text", "text": "Task."}]), assistant(), user()]
    plan = Plan(9, 9, 9, True, gap=Gap(1, 30, into=0))
    note = {"type": "text", "text": NOTE}
    assert json.loads(bytes(apply(raws, plan, None, "user")[0]))["content"] == [{"type": "text", "text": "Task."}, note]
    plan = Plan(9, 9, 9, True, gap=Gap(0, 30, into=0))
    assert json.loads(bytes(apply(raws, plan, None, "user")[0]))["content"] == [note, {"type": "text", "text": "Task."}]


def test_where_roles_need_not_alternate_the_note_stands_alone_and_no_answer_is_kept() -> None:
    found = planned(CHAT, Policy(ShapingSettings(keep_recent=1, target=0.1)), tokens(CHAT) // 2)
    assert found.gap == Gap(2, found.gap.tokens if found.gap else 0)
    assert staged(found) == {"dropped": [2, 3, 4, 5, 6]}
    assert roles([bytes(m) for m in apply(CHAT, found)]) == [
        *("system", "user", "system"),
        *("user", "assistant", "user"),
    ]


def test_a_pinned_tool_result_keeps_an_answer_between_its_question_and_the_next() -> None:
    """Also where the task, larger than its share, is gone."""
    loop = [calls("a"), result("a", prose(200), pinned=True)]
    raws = [user(prose(3_000)), assistant("A0"), user("Q1"), *loop, *turn(2)[1:], *turn(3), *turn(4), user("And?")]
    found = planned(raws, strict(keep_recent=1, target=0.1), 400)
    sent = as_sent(raws, found)
    assert [role for role, _ in sent] == ["user", "assistant", "user", "assistant", "tool", "assistant", "user"]
    assert [(text or "")[:2] for _, text in sent] == [NOTE[:2], "A0", "Q1", "", "th", "A4", "An"]


def test_of_two_answers_one_is_enough() -> None:
    raws = [user("Task."), assistant("A0", pinned=True), *turn(1), *turn(2), *turn(3), user("And?")]
    sent = as_sent(raws, planned(raws, strict(keep_recent=1, target=0), 400))
    assert [text for _, text in sent] == [f"Task.\n\n{NOTE}", "A0", "And?"]


def test_an_answer_stays_for_a_later_question_that_has_none_of_its_own() -> None:
    """The turn before the last question ended with a tool cycle, so the answer before that turn is the last one."""
    loop = tool_loop(2, 900)
    raws = [user("Task."), assistant("A0"), user("Q1"), *loop, user("And?"), *tool_loop(1, 50, 9)]
    found = planned(raws, strict(keep_recent=1, target=0.1, pin_share=0.03, exclude_tools=("read_file",)), 300)
    assert [role for role, _ in as_sent(raws, found)] == ["user", "assistant", "user", "assistant", "tool"]


def test_a_summary_before_the_question_is_answered() -> None:
    rules = Policy(
        ShapingSettings(keep_recent=1, segment_share=0.5, pin_share=0.1, target=0.9),
        True,
        summary_tokens=40,
        strict_roles=True,
    )
    loop = [calls("a"), result("a", prose(300)), calls("b"), result("b"), calls("c"), result("c", prose(300))]
    raws = [system("S"), user(prose(200)), *loop, assistant(prose(200)), user(prose(1_500))]
    found = planned(raws, rules, 400)
    assert found.summary
    sent = as_sent(raws, found, "Fine.")
    assert [role for role, _ in sent] == ["system", "user", "assistant", "user"]
    assert [text for _, text in sent[1:3]] == [f"{SUMMARY_PREFIX}\nFine.", SUMMARY_READ]
    assert [role for role, _ in as_sent(raws, found)] == ["system", "user"], "without a summary nothing stands there"
