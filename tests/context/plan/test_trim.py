"""When the context inside a user message is cut: how far, and when not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.context.plans import planned, policy, staged, tokens
from tests.support.messages import assistant, prose, result, system, tool_loop, user
from trimtab.context.apply.apply import apply
from trimtab.context.texts import TRUNCATED

GOAL = "Which of these fails, and why?"
LONG = prose(20_000).strip()
PARTS = [{"type": "text", "text": LONG, "context": True}, {"type": "text", "text": GOAL}]
TAGS = f"<context>\n{LONG}\n</context>\n{GOAL}"
PLAIN = f"{LONG}\n\n{GOAL}"
GUESS: dict[str, Any] = {"cut_context": "guessed"}
RUSSIAN = "Сборка прошла, тесты упали на третьем шаге. " * 400 + "\n\nЧто сломалось?"
CHINESE = "構建通過,測試在第三步失敗。" * 900 + "\n\n什麼壞了?"


def question_of(raws: list[bytes], **rules: Any) -> tuple[Any, Any]:
    """The newest user message as it is sent within 1,000 tokens, and the plan."""
    found = planned(raws, policy(**rules), 1_000)
    sent = [json.loads(bytes(raw)) for raw in apply(raws, found)]
    return next(m["content"] for m in reversed(sent) if m["role"] == "user"), found


MARKED = [(PARTS, {}), (TAGS, {}), (PARTS, GUESS), (TAGS, GUESS), (PLAIN, GUESS), (RUSSIAN, GUESS), (CHINESE, GUESS)]


@pytest.mark.parametrize(("content", "rules"), MARKED)
def test_a_question_too_large_for_the_budget_loses_context_and_keeps_its_goal(content: Any, rules: Any) -> None:
    raws = [system(), user(content)]
    kept, found = question_of(raws, **rules)
    assert found.fits
    assert found.sent > 850  # as much of the context as there is room for
    assert tokens([bytes(raw) for raw in apply(raws, found)]) == found.sent
    (edit,) = found.edits
    assert (edit.stage, edit.index, edit.reason) == ("trimmed", 1, "larger than the room left: its context is cut")
    assert edit.tokens_before > 3_000 > 1_000 > edit.tokens_after
    texts = [part["text"] for part in kept] if isinstance(kept, list) else [kept]
    goal = content[-1]["text"] if isinstance(content, list) else content.rpartition("\n")[2]
    assert texts[-1].endswith(goal)
    assert sum(text.count(TRUNCATED) for text in texts) == 1
    assert not isinstance(kept, list) or [set(part) for part in kept] == [{"type", "text"}] * 2


UNTOUCHED = [
    (PLAIN, {}),  # without a mark, and without a profile that asks for it
    (LONG, GUESS),  # one paragraph: all of it is the goal
    (f"Translate this.\n\n{LONG}", GUESS),  # the guess would take what is asked, and not help
    (f"{LONG}\n\n{LONG}", GUESS),
]


@pytest.mark.parametrize(("content", "rules"), UNTOUCHED)
def test_what_is_not_marked_stays_whole_and_what_would_not_help_is_not_done(content: str, rules: Any) -> None:
    kept, found = question_of([system(), user(content)], **rules)
    assert kept == content
    assert not found.fits
    assert found.breakdown.question == tokens([user(content)])


def test_marked_context_goes_as_far_as_it_can_and_the_rest_explains_the_refusal() -> None:
    raws = [system(), user(f"<context>\n{LONG}\n</context>\n{LONG}")]
    kept, found = question_of(raws)
    assert kept.endswith(f"</context>\n{LONG}")
    assert not found.fits
    assert found.breakdown.question == found.edits[0].tokens_after < tokens(raws[1:])


def test_each_message_over_the_limit_of_a_profile_is_cut_in_its_context() -> None:
    """As `replan` does, also in a request that fits; and what was cut as the question stays cut the same."""
    rules = {**GUESS, "max_message_chars": 500, "truncate": "always"}
    first = [system(), user(PLAIN)]
    later = [*first, *tool_loop(1, 100), assistant(LONG), user(TAGS)]
    for raws in (first, later):
        found = planned(raws, policy(**rules), 100_000)
        sent = [json.loads(bytes(raw))["content"] for raw in apply(raws, found)]
        assert found.fits
        assert all(len(content or "") <= 500 + len("<context></context>") for content in sent)
        assert [text for text in sent if text and text.endswith(GOAL)] == [
            sent[i] for i in range(len(sent)) if raws[i] in (user(PLAIN), user(TAGS))
        ]
    assert staged(found) == {"trimmed": [1, 5], "truncated": [4]}
    one, two = (apply(raws, planned(raws, policy(**rules), 100_000)) for raws in (first, later))
    assert two[: len(one)] == one


def test_a_goal_over_the_limit_stays_whole() -> None:
    rules = {"max_message_chars": 500, "truncate": "always"}
    kept, _ = question_of([user(f"<context>\n{prose(400)}\n</context>\n{prose(900)}")], **rules)
    assert kept.endswith(prose(900))
    assert TRUNCATED in kept
    unmarked, _ = question_of([user(f"{prose(400)}\n\n{prose(900)}")], **rules, **GUESS)
    assert unmarked == f"{prose(400)}\n\n{prose(900)}"


def test_a_goal_over_the_limit_is_cut_once_it_is_no_longer_the_question() -> None:
    raws = [user(f"<context>\n{prose(400)}\n</context>\n{prose(900)}")]
    for later, stage in (([], "trimmed"), ([assistant(), user()], "truncated")):
        found = planned([*raws, *later], policy(max_message_chars=500, truncate="always"), 100_000)
        assert staged(found) == {stage: [0]}


def test_old_results_and_turns_go_first_and_the_task_stays_beside_a_large_question() -> None:
    raws = [system(), user("Find the bug."), *tool_loop(5, 1_500), assistant(), user(TAGS)]
    found = planned(raws, policy(), 1_000)
    assert found.fits
    # The newest cycle stays, with a shorter result.
    assert staged(found) == {"dropped": [*range(2, 10)], "squeezed": [11], "trimmed": [13]}


def test_context_of_an_older_message_is_cut_before_its_goal() -> None:
    raws = [user(TAGS), *tool_loop(2, 100)[:3], result("call_1", prose(300))]
    found = planned(raws, policy(), 1_000)
    assert staged(found)["trimmed"] == [0]
    assert json.loads(bytes(apply(raws, found)[0]))["content"].endswith(GOAL)
