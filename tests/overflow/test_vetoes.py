"""What only looks like an overflow, and where the cause ends and the advice begins."""

from __future__ import annotations

import pytest

from tests.overflow.samples import OVERFLOWS
from trimtab.overflow.normalize import normalize
from trimtab.overflow.vetoes import cause_of, code_rules_out_overflow, is_about_another_size, is_about_rate_or_quota

HELPED_BY_WAITING_OR_PAYING = [
    "Rate limit reached",
    "limited to 40,000 input tokens per minute",
    "on tokens per min (TPM): Limit 30000, Requested 38571",
    "You exceeded your current quota",
    "You have exceeded your context usage for this month",
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
def test_about_rate_or_quota(text: str) -> None:
    assert is_about_rate_or_quota(normalize(text))


@pytest.mark.parametrize("text", ABOUT_ANOTHER_SIZE)
def test_about_another_size(text: str) -> None:
    assert is_about_another_size(normalize(text))


@pytest.mark.parametrize("text", ABOUT_THE_PROMPT + [text for text, _, _ in OVERFLOWS])
def test_about_the_prompt(text: str) -> None:
    assert not is_about_another_size(normalize(text))
    assert not is_about_rate_or_quota(normalize(text))


CODES = ["ratelimitexceeded", "insufficientquota", "overloadederror", "contentfilter"]
CODES += ["decimalabovemaxvalue", "stringabovemaxlength", "unsupportedparameter"]


@pytest.mark.parametrize("code", CODES)
def test_codes(code: str) -> None:
    assert code_rules_out_overflow([code], [])


@pytest.mark.parametrize(("param", "other"), [("temperature", True), ("tools[0].name", True), ("messages", False)])
def test_params(param: str, other: bool) -> None:
    assert code_rules_out_overflow([], [param]) == other


CAUSES = [
    ("prompt is too long, try again later", "prompt is too long"),
    ("input exceeds the context window. see your quota", "input exceeds the context window"),
    ("the maximum context length is 8192 tokens. wait", "the maximum context length is 8192 tokens"),
    ("输入过长,请稍后重试", "输入过长"),
    ("le prompt est trop long. attendez", "le prompt est trop long"),
    ("range of input length should be [1,30720]. wait", "range of input length should be [1,30720]"),
    ("rate limit reached. the prompt is too long. wait", "rate limit reached. the prompt is too long"),
    ("input token count 9000 exceeds the maximum of 8192. wait", "input token count 9000 exceeds the maximum of 8192"),
    # In doubt all of it is read.
    ("too many tokens, please wait", "too many tokens, please wait"),
    ("token limit exceeded: 33001 > 32768. wait", "token limit exceeded: 33001 > 32768. wait"),
    ("prompt tokens limit exceeded. add credits", "prompt tokens limit exceeded. add credits"),
    ("input is too large to process. raise the batch size", "input is too large to process. raise the batch size"),
    ("prompt limit exceeded, upgrade your plan", "prompt limit exceeded, upgrade your plan"),
    ("the maximum number of prompts exceeded. wait", "the maximum number of prompts exceeded. wait"),
    ("prompt is too long? no: field required", "prompt is too long? no: field required"),
    ("the model does not exist. see below", "the model does not exist. see below"),
]


@pytest.mark.parametrize(("text", "expected"), CAUSES)
def test_the_cause_ends_before_the_advice(text: str, expected: str) -> None:
    assert cause_of(text) == expected
