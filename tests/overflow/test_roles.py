"""What a number counts, by the words beside it."""

from __future__ import annotations

import pytest

from trimtab.overflow.roles import role_of

BESIDE = [
    ("maximum context length is ", " tokens", "limit"),
    ("exceeds the limit of ", " input tokens", "limit"),
    ("too large for model with ", " maximum context length", "limit"),
    ("however, your messages resulted in ", " tokens", "actual"),
    ("the prompt (", " tokens) ", "actual"),
    ("must have less than ", " tokens", "limit"),
    ("the current limit is ", "", "limit"),
    (" and your request has ", " input tokens", "input"),
    (", ", " in the completion)", "output"),
    ("max_tokens is too large: ", "", "output"),
    ("max_tokens (", ") is greater than the context length", "output"),
    ("prompt length (", ") and max_tokens", "input"),
    ("max_total_tokens (", ") must be less than", "actual"),
    (" and ", " max output tokens", "output"),
    ("input and maximum output tokens (", ")", "actual"),
    ("size limit exceeded by ", " tokens", "excess"),
    ("error code: ", " - ", "none"),
    ("below the minimum ", "", "none"),
    ("exceeds the maximum of ", " characters", "none"),
    ("hello ", " world", "none"),
    ("最大长度为", ",", "limit"),
    ("当前输入", "个token", "actual"),
]


@pytest.mark.parametrize(("left", "right", "role"), BESIDE)
def test_role(left: str, right: str, role: str) -> None:
    assert role_of(left, right) == role
