"""Each reason to reject a summary, and what is accepted."""

from __future__ import annotations

import pytest

from trimtab.summaries.accept import REASONS, Source, rejection
from trimtab.summaries.completion import Completion

GOOD = "The user wants a report by Friday; the budget is 300 and the draft lies in report.md."
SOURCE = Source(tokens=1_000, max_tokens=100, user_texts=["Please write the report until Friday."])

CASES: list[tuple[Completion, str | None]] = [
    (Completion(GOOD), None),
    (Completion(GOOD, finish_reason=None), None),
    (Completion(GOOD, finish_reason="end_turn"), None),
    (Completion(GOOD, has_tool_call=True), "tool_call"),
    (Completion(GOOD, finish_reason="length"), "cut_off"),
    (Completion(GOOD, finish_reason="max_tokens"), "cut_off"),
    (Completion(GOOD, finish_reason="MAX_TOKENS"), "cut_off"),
    (Completion(GOOD, finish_reason="model_length"), "cut_off"),
    (Completion(GOOD, finish_reason="error"), "cut_off"),
    (Completion(GOOD, finish_reason="insufficient_system_resource"), "cut_off"),
    (Completion(GOOD, finish_reason="content_filter"), "filtered"),
    (Completion(GOOD, finish_reason="SAFETY"), "filtered"),
    (Completion(""), "empty"),
    (Completion(" \n\t "), "empty"),
    (Completion("OK."), "too_short"),
    (Completion("I can't help with that."), "too_short"),
    (Completion(GOOD * 100), "not_smaller"),
    (Completion(GOOD * 20), "too_long"),
    (Completion("Пользователь хочет получить отчёт к пятнице; бюджет составляет триста."), "language"),
]


@pytest.mark.parametrize(("answer", "reason"), CASES)
def test_an_answer_is_rejected_for_this(answer: Completion, reason: str | None) -> None:
    assert rejection(answer, SOURCE) == reason


def test_every_reason_has_a_case() -> None:
    assert {reason for _, reason in CASES} - {None} == set(REASONS)


def test_a_short_text_in_few_characters_is_not_too_short() -> None:
    chinese = Source(1_000, 100, ["请写报告，星期五之前完成。"])
    assert rejection(Completion("用户希望在星期五之前完成报告，预算为三百。"), chinese) is None
