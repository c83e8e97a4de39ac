"""Whether it is an overflow, with which numbers: every catalogue line, other wordings, and laws over mutations."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.overflow.samples import CATALOGUE, LOOKALIKES, OVERFLOWS, as_bytes
from trimtab.overflow.classify import Overflow, classify, classify_event
from trimtab.overflow.sent import Sent

SLIP = "E058"  # "maximum context length is 3 tokens": an overflow, but no figure of it is to be believed


def classified(text: str, status: int = 400) -> Overflow | None:
    return classify(status, as_bytes({"error": {"message": text}}))


def test_the_example_of_the_modules_docstring() -> None:
    text = "Prompt is too long: 213,462 tokens > 200,000 maximum. Please try again later."
    body = {"error": {"type": "invalid_request_error", "message": text}}
    assert classify(400, as_bytes(body)) == Overflow(text, 200000, 213462, "input", input_tokens=213462)


@pytest.mark.parametrize("line", CATALOGUE, ids=lambda line: line["id"])
def test_catalogue(line: dict[str, Any]) -> None:
    overflow = classify(line["status"], as_bytes(line["body"]))
    assert (overflow is not None) == line["is_overflow"]
    if overflow is not None:
        expected = (None, None) if line["id"] == SLIP else (line["limit"], line["actual"])
        assert (overflow.limit, overflow.actual) == expected


@pytest.mark.parametrize(("text", "limit", "actual"), OVERFLOWS)
def test_other_wordings(text: str, limit: int | None, actual: int | None) -> None:
    for overflow in (classified(text), classify(400, text.encode())):
        assert overflow is not None
        assert (overflow.limit, overflow.actual) == (limit, actual)


@pytest.mark.parametrize("text", LOOKALIKES)
def test_look_alikes_in_any_status(text: str) -> None:
    for status in (400, 404, 413, 422, 429, 500, 503):
        assert classified(text, status) is None
        assert classify(status, text.encode()) is None


ANTHROPIC = "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000"
VLLM_OUTPUT = (
    "'max_tokens' is too large: 16384. This model's maximum context length is 65536 tokens and your request has "
    "64170 input tokens (16384 > 65536 - 64170)."
)
OPENROUTER = (
    "This endpoint's maximum context length is 262000 tokens. However, you requested about 263390 tokens (658 of "
    "text input, 732 of tool input, 262000 in the output)."
)
FUNCTIONS = (
    "This model's maximum context length is 4096 tokens. However, your messages resulted in 4106 tokens (4054 in "
    "the messages, 52 in the functions)."
)
VLLM_AT_LEAST = (
    "This model's maximum context length is 131072 tokens. However, you requested 4096 output tokens and your "
    "prompt contains at least 126977 input tokens, for a total of at least 131073 tokens."
)
COHERE = "total number of tokens (prompt and prediction) cannot exceed 2048 - received 6354"
SPLITS = [
    # text, actual, kind, input, output, lower bound
    (ANTHROPIC, 199759, "input", 199759, 8192, False),
    (VLLM_OUTPUT, 64170, "input", 64170, 16384, False),
    (OPENROUTER, 263390, "total", 1390, 262000, False),
    (FUNCTIONS, 4106, "input", 4106, None, False),
    (VLLM_AT_LEAST, 131073, "total", 126977, 4096, True),
    ("prompt is too long: 213462 tokens > 200000 maximum", 213462, "input", 213462, None, False),
    (COHERE, 6354, "total", None, None, False),
]


@pytest.mark.parametrize(("text", "actual", "kind", "inputs", "output", "lower"), SPLITS)
def test_split(text: str, actual: int, kind: str, inputs: int | None, output: int | None, lower: bool) -> None:
    got = classified(text)
    assert got is not None
    assert (got.actual, got.actual_kind, got.input_tokens, got.output_tokens) == (actual, kind, inputs, output)
    assert got.lower_bound is lower
    assert got.exact_input_tokens == (None if lower else inputs)


@pytest.mark.parametrize("status", [401, 402, 407])
def test_status_that_is_about_the_account(status: int) -> None:
    assert classified("prompt is too long: 213462 tokens > 200000 maximum", status) is None


def test_429_needs_both_numbers_or_a_code() -> None:
    assert classified("prompt is too long: 213462 tokens > 200000 maximum", 429) is not None
    assert classified("too many tokens", 429) is None
    assert classify(429, as_bytes({"error": {"message": "refused", "code": "context_length_exceeded"}})) is not None
    limited = {"error": {"message": "prompt is too long: 9000 tokens > 8192 maximum", "type": "rate_limit_error"}}
    assert classify(429, as_bytes(limited)) is None


def test_typed_code_alone_is_enough_in_any_status() -> None:
    for code in ("context_length_exceeded", "model_max_prompt_tokens_exceeded", "prompt_too_long", 1261, "1261"):
        overflow = classify(500, as_bytes({"error": {"message": "refused", "code": code}}))
        assert overflow is not None
        assert overflow.message == "refused"


def test_a_text_beside_a_typed_code_does_not_undo_it() -> None:
    for text in ("Try again later.", "Check your quota.", "Contact support with your API key.", "Upgrade your plan."):
        for beside in ({"message": text}, {"message": "refused", "hint": text, "type": "rate_limit_error"}):
            assert classify(400, as_bytes({"error": {"code": "context_length_exceeded", **beside}})) is not None


def test_advice_in_a_field_of_its_own_does_not_undo_the_cause() -> None:
    cause, advice = "prompt is too long: 9120 tokens > 8192 maximum", "please try again later"
    assert classify(400, as_bytes({"error": {"message": cause, "hint": advice}})) is not None
    assert classify(400, as_bytes({"error": {"message": advice, "hint": cause}})) is None


def test_of_several_sentences_the_one_with_the_numbers_is_taken() -> None:
    raw = '{"error": {"message": "prompt is too long: 213462 tokens > 200000 maximum"}}'
    got = classified(f"litellm.ContextWindowExceededError: AnthropicError - b'{raw}'\nmodel=claude. fallbacks=None")
    assert got is not None
    assert (got.limit, got.actual) == (200000, 213462)


def test_max_tokens_alone_beyond_the_window_counts_no_input() -> None:
    got = classified("The requested max_tokens 200000 exceeds the model's context window of 131072 tokens")
    assert got is not None
    assert (got.limit, got.output_tokens, got.exact_input_tokens) == (131072, 200000, None)


def test_weak_code_is_overruled_by_a_sentence_about_the_output() -> None:
    text = "too many tokens: max tokens must be less than or equal to 4096, the maximum output length"
    assert classify(400, as_bytes({"error_type": "TOO_MANY_TOKENS", "message": text})) is None
    assert classify(400, as_bytes({"error_type": "TOO_MANY_TOKENS", "message": "refused"})) is not None


def test_an_echoed_prompt_is_ignored() -> None:
    echo = "input: {'content': 'Why do I get: prompt is too long: 210000 tokens > 200000 maximum ?'}"
    text = f"Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 9 instead. {echo}"
    body = {"message": text, "param": "temperature", "code": "decimal_above_max_value"}
    assert classify(400, as_bytes({"error": body})) is None
    assert classify(400, as_bytes({"error": {"message": text}})) is None
    assert classified(f"Invalid value for 'seed'. {echo}") is None


def test_a_code_in_brackets_is_not_read_as_a_limit() -> None:
    body = {"type": "error", "error": {"message": "invalid params, context window exceeds limit (2013)"}}
    overflow = classify(400, as_bytes(body))
    assert overflow is not None
    assert overflow.limit is None


def test_an_empty_400_or_413_is_an_overflow() -> None:
    for status in (400, 413):
        assert classify(status, b" \r\n") == Overflow(message="")
    assert all(classify(status, b"") is None for status in (200, 204, 403, 404, 422, 429, 500, 502))


def test_message_is_bounded_and_the_upstreams_own() -> None:
    overflow = classify(400, as_bytes({"error": {"message": "Prompt is too long. " + "x" * 50_000}}))
    assert overflow is not None
    assert overflow.message.startswith("Prompt is too long. x")
    assert len(overflow.message) == 2000


ANSWERS = [
    {"choices": [{"message": {"content": "prompt is too long: 213462 tokens > 200000 maximum"}}]},
    {"choices": [{"delta": {"content": '{"error": {"code": "context_length_exceeded"}}'}}], "error": None},
    {"choices": [{"finish_reason": "model_context_window_exceeded", "message": {"content": ""}}]},
    {"type": "response.output_text.delta", "delta": "prompt is too long"},
    {"type": "response.completed", "response": {"error": None, "output": [{"text": "prompt is too long"}]}},
    {"message": {"role": "assistant", "content": "prompt is too long"}, "done": True},
    {"object": "list", "data": [{"id": "prompt is too long"}]},
    {"choices": [], "usage": {"prompt_tokens": 260000}},
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_about_overflows_is_an_answer(answer: dict[str, Any]) -> None:
    assert classify(200, as_bytes(answer)) is None
    assert classify_event(as_bytes(answer)) is None
    assert classify(200, b"data: " + as_bytes(answer) + b"\n\n") is None


# --- Laws over mutations ---------------------------------------------------------------------------------------

PLAIN_OVERFLOWS = [(text, limit, actual) for text, limit, actual in OVERFLOWS]
PLAIN_OVERFLOWS += [
    (line["body"]["error"]["message"], line["limit"], line["actual"])
    for line in CATALOGUE
    if line["is_overflow"]
    and isinstance(line["body"], dict)
    and isinstance(line["body"].get("error"), dict)
    and line["id"] != SLIP
    and "metadata" not in line["body"]["error"]
    and "{" not in line["body"]["error"]["message"]
    and (line["limit"] is None or str(line["limit"]) in re.sub(r"\D", "", line["body"]["error"]["message"]))
    and "n_ctx" not in line["body"]["error"]
    and line["body"]["error"].get("code") not in ("1261", "context_length_exceeded")
]
PLAIN_LOOKALIKES = [*LOOKALIKES] + [
    line["body"]["error"]["message"]
    for line in CATALOGUE
    if not line["is_overflow"] and isinstance(line["body"], dict) and isinstance(line["body"].get("error"), dict)
]

NESTINGS = {
    "object": lambda text: {"error": {"message": text, "type": "invalid_request_error", "param": None, "code": None}},
    "string": lambda text: {"error": text},
    "message": lambda text: {"message": text, "object": "error", "code": 400},
    "detail": lambda text: {"detail": text},
    "details": lambda text: {"detail": [{"loc": ["body"], "msg": text, "type": "value_error"}]},
    "errors": lambda text: {"success": False, "errors": [{"code": 5006, "message": text}], "result": {}},
    "array": lambda text: [{"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}}],
    "base_resp": lambda text: {"id": "1", "choices": None, "base_resp": {"status_code": 2013, "status_msg": text}},
    "raw": lambda text: {
        "error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": json.dumps({"error": text})}}
    },
    "json in message": lambda text: {"error": {"message": json.dumps({"code": "x", "error": {"message": text}})}},
    "text before json": lambda text: {"error": {"message": "upstream said 400 " + json.dumps({"message": text})}},
    "response": lambda text: {"type": "response.failed", "response": {"status": "failed", "error": {"message": text}}},
    "exception": lambda text: {"validationException": {"message": text}},
    "200 with no choices": lambda text: {"id": "1", "choices": [], "error": {"message": text, "code": 400}},
    "choice": lambda text: {"choices": [{"error": {"message": text}, "finish_reason": "error"}]},
    "unknown key": lambda text: {"fault": {"faultstring": text, "detail": {"errorcode": "policies.x"}}},
}
OF_A_200 = ["object", "string", "array", "base_resp", "raw", "json in message", "response", "exception", "errors"]
OF_A_200 += ["200 with no choices", "choice"]


@given(
    case=st.sampled_from(PLAIN_OVERFLOWS),
    nesting=st.sampled_from(sorted(NESTINGS)),
    status=st.sampled_from((400, 404, 413, 422, 500)),
)
@settings(max_examples=400, deadline=None)
def test_any_nesting_keeps_the_verdict(case: tuple[str, int | None, int | None], nesting: str, status: int) -> None:
    text, limit, actual = case
    overflow = classify(status, as_bytes(NESTINGS[nesting](text)))
    assert overflow is not None
    assert (overflow.limit, overflow.actual) == (limit, actual)
    assert overflow.message.strip() == text.strip() or " " not in text  # a code alone has no message


@given(case=st.sampled_from(PLAIN_OVERFLOWS), nesting=st.sampled_from(OF_A_200))
@settings(max_examples=200, deadline=None)
def test_any_nesting_inside_a_200_or_a_stream(case: tuple[str, int | None, int | None], nesting: str) -> None:
    body = as_bytes(NESTINGS[nesting](case[0]))
    chunk = b'data: {"choices":[{"delta":{"content":"Hello"}}]}\n\n'
    for overflow in (classify(200, body), classify_event(body), classify(200, chunk + b"data: " + body + b"\n\n")):
        assert overflow is not None
        assert (overflow.limit, overflow.actual) == case[1:]


@given(
    text=st.sampled_from(PLAIN_LOOKALIKES),
    nesting=st.sampled_from(sorted(NESTINGS)),
    status=st.sampled_from((200, 400, 404, 413, 422, 429, 500, 503)),
)
@settings(max_examples=400, deadline=None)
def test_any_nesting_keeps_a_look_alike_one(text: str, nesting: str, status: int) -> None:
    assert classify(status, as_bytes(NESTINGS[nesting](text))) is None


FORMS = {
    "plain": str,
    "comma": lambda n: f"{n:,}",
    "dot": lambda n: f"{n:,}".replace(",", "."),
    "space": lambda n: f"{n:,}".replace(",", " "),
    "thin space": lambda n: f"{n:,}".replace(",", "\u202f"),
    "quote": lambda n: f"{n:,}".replace(",", "'"),
    "underscore": lambda n: f"{n:_}",
}
TEMPLATES = [
    (
        "This model's maximum context length is {limit} tokens. However, your messages resulted in {actual} tokens.",
        "input",
    ),
    ("prompt is too long: {actual} tokens > {limit} maximum", "input"),
    ("The input token count ({actual}) exceeds the maximum number of tokens allowed ({limit}).", "input"),
    ("Input length {actual} exceeds the maximum allowed input length of {limit} tokens.", "input"),
    ("Your request exceeded model token limit: {limit} (requested: {actual})", "input"),
    ("request ({actual} tokens) exceeds the available context size ({limit} tokens), try increasing it", "input"),
    ("Prompt contains {actual} tokens, too large for model with {limit} maximum context length", "input"),
    ("This model's maximum prompt length is {limit} but the request contains {actual} tokens.", "input"),
    (
        "Please reduce the length of the messages or completion. Current length is {actual} while limit is {limit}",
        "input",
    ),
    ("`inputs` must have less than {limit} tokens. Given: {actual}", "input"),
    ("Model {model}: the prompt has {actual} tokens, more than the context window of {limit} tokens", "input"),
    ("{model} supports at most {limit} input tokens, but your prompt has {actual}.", "input"),
    ("输入长度{actual}超过模型{model}最大上下文长度{limit}", "input"),
]
MODELS = [
    "gpt-4-32k",
    "llama-3.1-8b-instruct-131072",
    "qwen2.5-72b",
    "claude-3-5-sonnet-20241022",
    "openai/gpt-4o-2024-08-06",
]
MODELS += ["moonshot-v1-128k", "mixtral-8x7b-32768", "glm-4.5", "deepseek-r1:70b", "@cf/zai-org/glm-5.2"]
CASES = {"as is": str, "upper": str.upper, "lower": str.lower, "title": str.title}


@given(
    template=st.sampled_from(TEMPLATES),
    limit=st.integers(1024, 2_000_000),
    more=st.integers(1, 900_000),
    form=st.sampled_from(sorted(FORMS)),
    case=st.sampled_from(sorted(CASES)),
    model=st.sampled_from(MODELS),
)
@settings(max_examples=800, deadline=None)
def test_numbers_names_and_case_may_change(
    template: tuple[str, str], limit: int, more: int, form: str, case: str, model: str
) -> None:
    write = FORMS[form]
    text = template[0].format(limit=write(limit), actual=write(limit + more), model=model)
    overflow = classified(CASES[case](text))
    assert overflow is not None
    assert (overflow.limit, overflow.actual, overflow.actual_kind) == (limit, limit + more, template[1])


STATED = "maximum context length is {limit} tokens. However, you requested "
SPLIT_TEMPLATES = [
    STATED + "{total} tokens ({inputs} in the messages, {output} in the completion).",
    STATED + "{total} tokens ({inputs} in your prompt; {output} for the completion).",
    STATED + "about {total} tokens ({inputs} of text input, {output} in the output).",
    STATED
    + "a total of {total} tokens: {inputs} tokens from the input messages and {output} tokens for the completion.",
]


@given(
    template=st.sampled_from(SPLIT_TEMPLATES),
    limit=st.integers(1024, 2_000_000),
    share=st.floats(0.01, 0.99),
    more=st.integers(1, 100_000),
    form=st.sampled_from(sorted(FORMS)),
)
@settings(max_examples=300, deadline=None)
def test_split_of_input_and_output(template: str, limit: int, share: float, more: int, form: str) -> None:
    total = limit + more
    output = max(1, int(total * share))
    numbers = {"limit": limit, "total": total, "inputs": total - output, "output": output}
    got = classified(template.format(**{name: FORMS[form](number) for name, number in numbers.items()}))
    assert got is not None
    assert (got.limit, got.actual, got.actual_kind) == (limit, total, "total")
    assert (got.input_tokens, got.output_tokens) == (total - output, output)


@given(body=st.one_of(st.binary(max_size=400), st.text(max_size=300).map(str.encode)), status=st.integers(100, 599))
def test_no_bytes_ever_raise(body: bytes, status: int) -> None:
    classify(status, body)
    classify(status, b"data: " + body)
    classify_event(body)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ("error", "message", "code", "type", "detail", "choices", "response", "base_resp", "n_ctx", "param")
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(value=JSON, status=st.sampled_from((200, 400, 500)))
def test_no_json_ever_raises(value: Any, status: int) -> None:
    classify(status, as_bytes(json.dumps(value)))
    classify_event(as_bytes(json.dumps(value)))


LARGE = [
    "context ",
    "prompt exceeds ",
    "a",
    "1,",
    "1 000 ",
    "{",
    "[",
    '"',
    "<",
    "< html <",
    " ",
    "tokens input max_ ",
    "超过上下文",
    "> ",
]


@pytest.mark.parametrize("piece", LARGE)
def test_a_megabyte_is_classified_within_a_second(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    start = time.perf_counter()
    for body in (text.encode(), as_bytes({"error": {"message": text}}), b"data: " + text.encode()):
        classify(400, body)
        classify(200, body)
    assert time.perf_counter() - start < 1.0


def test_a_deep_nest_is_read_without_an_error() -> None:
    assert classify(400, b"[" * 100_000 + b"]" * 100_000) is None
    assert classify(400, b'{"error":' * 5_000 + b"1" + b"}" * 5_000) is None


# -- in words that nobody here knows -----------------------------------------------------------------------------

NUMBERS = {
    "Hindi": ("इनपुट बहुत लंबा है: 9000 टोकन, अधिकतम 8192", True),
    "Thai": ("ข้อความยาวเกินไป (9,000 โทเค็น, สูงสุด 8,192)", True),
    "Swedish": ("Prompten är för lång: 9000 tokens (max 8192)", True),
    "Indonesian": ("Masukan terlalu panjang: 9000 token, maksimum 8192", True),
    "a name": ("TokenLimitExceeded: input has 9000 tokens, max 8192", True),
    "no count of what was sent": ("Masukan terlalu panjang: 90000 token, maksimum 8192", False),
    "one number": ("Masukan terlalu panjang: maksimum 8192 token", False),
    "more numbers": ("4200 av 9000 tokens, 8192 tillåts", False),
    "the output": ("max_tokens: 9000 tokens är för mycket, 8192 tillåts", False),
    "money, in French": ("Il vous reste 8192 jetons de crédit ; la requête en demande 9000.", False),
    "money, in Japanese": ("残りクレジット 8192 トークン、必要 9000 トークン", False),
    "a day's quota, in German": ("8192 Token pro Tag, angefragt: 9000", False),
    "no tokens": ("Kesalahan 9000 dalam 8192", False),
    "a rate": ("9000 tokens gevraagd, 8192 per minuut", False),
    "numbers of the client's": ("unknown+token+512+9000+in+the+field", False),
}


@pytest.mark.parametrize(("text", "is_one"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_that_agree_say_it_in_any_language(text: str, is_one: bool) -> None:
    body = as_bytes({"error": {"message": text}})
    sent = Sent(b'{"messages":[{"role":"user","content":"512 of 9000"}]}', 8_600, 0, 32_768)
    found = classify(400, body, sent)
    assert (found is not None) is is_one
    if found is not None:
        assert (found.limit, found.input_tokens, found.agreed) == (8_192, 9_000, False)
    assert classify(400, body) is None  # nothing to agree with
    assert classify(500, body, sent) is None


WINDOWS = {
    "Korean": ("컨텍스트 길이 제한은 8192 토큰입니다", True),
    "Russian": ("Максимальная длина контекста — 8192 токенов.", True),
    "Turkish": ("Bağlam uzunluğu sınırı 8192 token.", True),
    "Arabic": ("الحد الأقصى لطول السياق هو 8192 رمزًا.", True),
    "Polish": ("Maksymalna długość kontekstu to 8192 tokenów.", True),
    "Swedish": ("Modellens kontextfönster rymmer 8 192 tokens", True),
    "more than was sent": ("Максимальная длина контекста — 16384 токенов.", False),
    "no context": ("Максимум — 8192 токенов.", False),
    "no tokens": ("Контекст 8192", False),
    "a rate": ("Контекст: 8192 токенов в минуту", False),
    "the client's own number": ("Контекст: 512 токенов", False),
    "a name": ("Модель kontekst-8192-token не найдена", False),
}


@pytest.mark.parametrize(("text", "is_one"), WINDOWS.values(), ids=WINDOWS)
def test_a_window_below_what_was_sent_says_it_in_any_language(text: str, is_one: bool) -> None:
    body = as_bytes({"error": {"message": text}})
    sent = Sent(b'{"messages":[{"role":"user","content":"512 of 9000"}]}', 9_000, 0, 32_768)
    found = classify(400, body, sent)
    assert (found is not None) is is_one
    if found is not None:
        assert (found.limit, found.actual, found.agreed) == (8_192, None, False)
    assert classify(400, body) is None
    assert classify(429, body, sent) is None
