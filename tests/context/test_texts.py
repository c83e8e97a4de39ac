"""What the proxy itself writes to a model: constants only, because a text that changes breaks the prefix cache."""

from __future__ import annotations

import json

import pytest

from trimtab.context import texts

SAID = {name: value for name, value in vars(texts).items() if name.isupper() and isinstance(value, str)}
SAID |= {f"REMOVED {kind}": text for kind, text in texts.REMOVED.items()}


@pytest.mark.parametrize("text", SAID.values(), ids=SAID)
def test_nothing_counts_dates_or_names(text: str) -> None:
    assert isinstance(text, str)
    assert text.strip()
    assert not any(c.isdigit() or c in "%$" for c in text)


def test_the_placeholder_says_that_the_tool_ran_and_takes_the_hurry_out() -> None:
    assert "This tool ran" in texts.PLACEHOLDER
    assert "no need to stop early" in texts.PLACEHOLDER
    assert "run again" in texts.PLACEHOLDER


def test_cleared_arguments_are_json() -> None:
    assert json.loads(texts.CLEARED_ARGUMENTS) == {}
