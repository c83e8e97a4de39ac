"""What only looks like an overflow, told by its words alone."""

from __future__ import annotations

import pytest

from tests.overflow.samples import OVERFLOWS
from trimtab.overflow.normalize import plain
from trimtab.overflow.vetoes import about_another_size, asks_for_something_else, vetoed

HELPED_BY_WAITING_OR_PAYING = [
    "Rate limit reached",
    "limited to 40,000 input tokens per minute",
    "on tokens per min (TPM): Limit 30000, Requested 38571",
    "You exceeded your current quota",
    "Too many tokens, please wait before trying again.",
    "requires more credits",
    "context deadline exceeded",
    "filtered by the content management policy",
    "请求频率超过限制",
    "余额不足",
]
ABOUT_ANOTHER_SIZE = [
    "max_tokens is too large: 20480. This model supports at most 16384 completion tokens",
    "`max_new_tokens` must be <= 2048. Given: 4096",
    "输出长度超限，请降低 max_tokens",
    "Request payload size exceeds the limit: 314572800 bytes.",
    "image exceeds 5 MB maximum",
    "string too long. Expected a string with maximum length 64",
    "input is too large to process. increase the physical batch size",
    "Input should be less than or equal to 2",
    "Model context window too small (minimum is 128k tokens)",
]
ABOUT_THE_PROMPT = [
    "Request body too large for gpt-4o model. Max size: 8000 tokens.",
    "Request size exceeds model context window",
    "Total tokens of image and text exceed max message tokens.",
    "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000",
    "max_tokens must be at least 1, got -7584.",
    "`inputs` tokens + `max_new_tokens` must be <= 4097",
    "max_tokens is too large: 16384. This model's maximum context length is 65536 tokens and your request has",
]


@pytest.mark.parametrize("text", HELPED_BY_WAITING_OR_PAYING)
def test_hard(text: str) -> None:
    assert asks_for_something_else(plain(text))


@pytest.mark.parametrize("text", ABOUT_ANOTHER_SIZE)
def test_about_another_size(text: str) -> None:
    assert about_another_size(plain(text))


@pytest.mark.parametrize("text", ABOUT_THE_PROMPT + [text for text, _, _ in OVERFLOWS])
def test_about_the_prompt(text: str) -> None:
    assert not about_another_size(plain(text))
    assert not asks_for_something_else(plain(text))


CODES = ["ratelimitexceeded", "insufficientquota", "overloadederror", "contentfilter"]
CODES += ["decimalabovemaxvalue", "stringabovemaxlength", "unsupportedparameter"]


@pytest.mark.parametrize("code", CODES)
def test_codes(code: str) -> None:
    assert vetoed([code], [])


@pytest.mark.parametrize(("param", "other"), [("temperature", True), ("tools[0].name", True), ("messages", False)])
def test_params(param: str, other: bool) -> None:
    assert vetoed([], [param]) == other
