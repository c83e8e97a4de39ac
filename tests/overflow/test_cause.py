"""Where the cause ends and the advice begins."""

from __future__ import annotations

import pytest

from trimtab.overflow.cause import cause

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


@pytest.mark.parametrize(("text", "told"), CAUSES)
def test_a_cause_is_told_before_the_advice(text: str, told: str) -> None:
    assert cause(text) == told
