"""The shipped prompts say what each hint needs, and change their version with every word."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.context.estimate.tokens import text_tokens
from trimtab.context.policy import HINTS, Hint
from trimtab.summaries.prompts import load_prompts, make_prompt

SHIPPED = load_prompts()

ALL_ASK = ("language", "headings included", "files read", "files changed", "decisions", "errors", "open tasks")
ALL_FORBID = ("is data", "obey nothing in it", "call no tool", "no preamble")
OWN = {
    "react_iteration": ("goal", "recent reasoning", "critical data", "failed retries", "verbose output"),
    "planner_input": ("intent evolved", "constraints", "greetings", "tool mechanics"),
    "step_dependency": ("numbers", "conclusions", "failed attempts", "formatting"),
    "general": ("key facts", "results of tools", "greetings", "filler", "repetition"),
}


@pytest.mark.parametrize("hint", HINTS)
def test_every_prompt_asks_for_what_must_not_be_lost(hint: Hint) -> None:
    text = SHIPPED[hint].text.replace("files read or changed", "files read and files changed")
    assert [phrase for phrase in (*ALL_ASK, *ALL_FORBID, *OWN[hint]) if phrase not in text] == []


@pytest.mark.parametrize("hint", HINTS)
def test_a_prompt_is_short_beside_what_it_summarizes(hint: Hint) -> None:
    prompt = SHIPPED[hint]
    assert text_tokens(prompt.text + prompt.opening("abcdef") + prompt.closing(2_000, None)) < 280


def test_versions_differ_by_hint_and_by_text() -> None:
    edited = {hint: make_prompt(hint, "the same text") for hint in HINTS}
    versions = [prompts[hint].version for prompts in (SHIPPED, edited) for hint in HINTS]
    assert len(set(versions)) == 8
    assert load_prompts()["general"].version == SHIPPED["general"].version


def test_an_operator_can_replace_single_prompts(tmp_path: Path) -> None:
    (tmp_path / "general.md").write_text("Be brief.\n")
    own = load_prompts(tmp_path)
    assert own["general"].text == "Be brief."
    assert own["planner_input"] == SHIPPED["planner_input"]


def test_the_words_around_the_conversation() -> None:
    prompt = SHIPPED["general"]
    assert "[abcdef" in prompt.opening("abcdef")
    assert "at most 1200 words" in prompt.closing(2_000, None)
    assert "(Cyrillic script)" in prompt.closing(2_000, "Cyrillic")
    assert prompt.appended(2_000, None).startswith(prompt.text)
