"""The numbers of an overflow, the role of each, and that figures which cannot all be true are dropped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.overflow.figures import MAX_LIMIT, MIN_LIMIT, Figures, figures_in_fields, read_figures, role_of
from trimtab.overflow.normalize import normalize

COHERE = "size limit exceeded by 168512 tokens. The limit for this model is 132000 tokens."
READ = [
    ("prompt is too long: 213462 tokens > 200000 maximum", Figures(200000, 213462, "input", 213462)),
    ("Range of input length should be [1, 983616]", Figures(983616)),
    (COHERE, Figures(132000, 300512, "input", 300512)),
    ("exceeded max context length by 4096 tokens", Figures()),
    ("context window exceeds limit (2013)", Figures()),
    ("exceeds the maximum number of tokens allowed (65536)", Figures(65536)),
    ("maximum context length is 3 tokens. However, your request has 8 input tokens.", Figures()),
    ("maximum context length is 99999999999 tokens", Figures()),
    ("exceeded model token limit: 262144 (requested: 1000)", Figures()),  # cannot be
    ("71599 + 2048 is greater than max_seq_len 65536", Figures(65536, 71599, "input", 71599, 2048)),
    ("model llama-3.1-8b-131072 2024-08-06: maximum context length is 8192 tokens", Figures(8192)),
    ("the max input characters is 20000", Figures()),
    ("[1261] prompt exceeds max length", Figures()),
    ("<400> internalerror: input length exceeds the maximum length 30720", Figures(30720)),
    ("prompt length (9351.0), query length (0) should not exceed 8192", Figures(8192, 9351, "input", 9351)),
    ("prompt length (9000) and max_tokens (4000) should not exceed 8192", Figures(8192, 9000, "input", 9000, 4000)),
    ("max_total_tokens (33802) must be less than max_seq_len (32768)", Figures(32768, 33802, "input", 33802)),
    ("max_tokens (40000) is greater than the context length 32768", Figures(32768, output=40000)),
    ("9000 input tokens, 4000 max output tokens exceed a window of 8192", Figures(8192, 9000, "input", 9000, 4000)),
    ("requested 30000 tokens, max_tokens 4096, limit 32768", Figures(32768, 30000, "input", 30000, 4096)),
    ("your prompt has 9000 input tokens, above 8192 (input tokens: 9000)", Figures(8192, 9000, "input", 9000)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), READ)
def test_figures(text: str, expected: Figures) -> None:
    assert read_figures(normalize(text)) == expected


def test_a_number_that_is_a_code_is_ignored() -> None:
    assert read_figures("maximum prompt tokens 20130", codes=("20130",)) == Figures()


def test_figures_in_fields() -> None:
    assert figures_in_fields(8192, 13392) == Figures(8192, 13392, "input", 13392)
    assert figures_in_fields(3, 8) == Figures()
    assert figures_in_fields(8192, 100) == Figures()
    assert figures_in_fields(None, None) == Figures()


def test_a_count_below_the_limit_is_believed_where_the_output_asked_for_explains_it() -> None:
    text = "maximum context length is 32768 tokens. however, your messages resulted in 28766 tokens."
    assert read_figures(text) == Figures()
    assert read_figures(text, asked=4_000) == Figures()
    assert read_figures(text, asked=4_096) == Figures(32_768, 28_766, "input", 28_766)
    assert figures_in_fields(32_768, 28_766, 4_096) == Figures(32_768, 28_766, "input", 28_766)


@given(st.text(alphabet="0123456789 ,.>+-()[]tokens limit maximum requested exceeds by input", max_size=200))
def test_figures_can_all_be_true(text: str) -> None:
    got = read_figures(normalize(text))
    assert got.limit is None or MIN_LIMIT <= got.limit <= MAX_LIMIT
    if got.limit is not None and got.actual is not None and got.output is None and got.kind == "total":
        assert got.actual >= got.limit


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
