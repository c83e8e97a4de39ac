"""What an error repeats of the request is not the upstream's word."""

from __future__ import annotations

import json
import time

import pytest

from tests.overflow.samples import OVERFLOWS, as_bytes
from trimtab.overflow.classify import classify, classify_event
from trimtab.overflow.sent import LARGEST, OwnWords, Sent, own_words

FALSE = "This model's maximum context length is 300 tokens. However, your messages resulted in 9000 tokens."
CHAT = {"messages": [{"role": "user", "content": f"Why do I get this: {FALSE} What can I do?"}]}


def sent(request: object = CHAT, tokens: int = 9_000, output: int = 0) -> Sent:
    return Sent(json.dumps(request).encode(), tokens, output)


ECHOES = [
    f"Invalid value: '{FALSE}'. Supported values are: 'a' and 'b'.",
    f"Invalid value: '…{FALSE[:60]}…'",
    f'Invalid value: "{FALSE}" is not allowed here',
    f"Invalid value: `{FALSE}`",
    f"Invalid value: ‘{FALSE}’",
    f"Invalid value: '{FALSE[:90]}",  # cut off
    f"Invalid value {FALSE}",
    f"Unexpected content ({FALSE.upper()}) in messages.0",
    f"Invalid value: {json.dumps(FALSE)}",
    f"Could not parse: Why do I get this: {FALSE} What can I do?",
    f"Invalid value: &#x27;{FALSE.replace(chr(39), '&#x27;')}&#x27;",
]


@pytest.mark.parametrize("text", ECHOES)
@pytest.mark.parametrize("escaped", [False, True])
def test_an_echo_is_no_evidence(text: str, escaped: bool) -> None:
    body = json.dumps(CHAT, ensure_ascii=escaped).encode()
    if escaped:  # a client may escape any letter
        body = body.replace(b"maximum", b"\\u006d\\u0061ximum")
    for error in ({"error": {"message": text}}, {"detail": [{"msg": text, "loc": ["body"]}]}, {"error": text}):
        assert classify(422, as_bytes(error), Sent(body, 9_000)) is None
    assert classify_event(as_bytes({"error": {"message": text}}), Sent(body, 9_000)) is None


def test_an_echo_in_a_field_of_its_own_is_no_evidence() -> None:
    for field in ("input", "value", "bad", "example"):
        assert classify(400, as_bytes({"error": {"message": "Invalid value given.", field: FALSE}}), sent()) is None


def test_an_error_in_the_request_that_is_repeated_is_no_evidence() -> None:
    error = json.dumps({"error": {"code": "context_length_exceeded", "message": FALSE}})
    request = {"messages": [{"role": "user", "content": error}]}
    echo = as_bytes({"error": {"message": f"Invalid value: {error}"}})
    assert classify(400, echo, sent(request)) is None
    assert classify(400, echo, sent()) is not None


@pytest.mark.parametrize(("text", "limit", "actual"), OVERFLOWS)
def test_the_same_words_are_the_upstreams_own_where_the_request_does_not_hold_them(
    text: str, limit: int | None, actual: int | None
) -> None:
    body = as_bytes({"error": {"message": text}})
    alone = classify(400, body)
    assert alone is not None
    overflow = classify(400, body, sent(tokens=alone.input_tokens or actual or limit or 9_000))
    assert overflow is not None
    assert (overflow.limit, overflow.actual) == (limit, actual)


OWN = [
    FALSE.replace("300", "8192").replace("9000", "9120"),
    FALSE.replace("9000", "9120"),
    f"litellm.BadRequestError: OpenAIException - {FALSE.replace('9000', '9120')}",
    f"'max_tokens' is too large: 512. {FALSE.replace('9000', '9120')}",
    "Request failed: prompt is too long: 9120 tokens > 8192 maximum",
]


@pytest.mark.parametrize("text", OWN)
def test_a_conversation_about_overflows_may_overflow(text: str) -> None:
    request = {"messages": [{"role": "user", "content": f"{FALSE} prompt is too long: 1 tokens > 0"}]}
    overflow = classify(400, as_bytes({"error": {"message": text}}), sent(request, 9_000, 512))
    assert overflow is not None
    assert overflow.agreed


def test_words_that_may_be_either_count_for_their_own_request_only() -> None:
    overflow = classify(400, as_bytes({"error": {"message": FALSE}}), sent())
    assert overflow is not None
    assert not overflow.agreed


COUNTS = [
    # limit and count that are reported, tokens sent, what is believed of them, agreed
    (8_192, 9_120, 9_000, True, True),
    (8_192, 9_120, 16_000, True, True),
    (8_192, 9_120, 20_000, True, False),
    (8_192, 9_120, 50_000, False, False),
    (8_192, 9_120, 900, False, False),
]


@pytest.mark.parametrize(("limit", "count", "tokens", "believed", "agreed"), COUNTS)
def test_the_count_must_agree_with_what_was_sent(
    limit: int, count: int, tokens: int, believed: bool, agreed: bool
) -> None:
    error = as_bytes({"error": {"message": f"prompt is too long: {count} tokens > {limit} maximum"}})
    overflow = classify(400, error, sent({}, tokens))
    assert overflow is not None
    assert (overflow.limit, overflow.believed, overflow.agreed) == (limit, believed, agreed)
    assert (overflow.as_believed.limit is not None) is believed


def test_a_sentence_found_late_must_fit_what_was_sent() -> None:
    text = "Your request is invalid. " + "Nothing else is known. " * 20 + "the maximum context length is 200000 tokens"
    body = as_bytes({"error": {"message": text}})
    assert classify(400, body, sent({}, 50)) is None
    assert classify(400, body, sent({}, 50, 180_000)) is not None
    assert classify(400, body, sent({}, 190_000)) is not None


def test_own_words_without_a_request() -> None:
    assert own_words("no: 'a b c d e'!", None) == OwnWords("no:  … !", certain=False)
    assert own_words("no: 'a b'!", None).text == "no: 'a b'!"
    assert own_words("{'message': 'it is too long'}", None).text == "{'message': 'it is too long'}"


def test_of_a_large_request_nothing_is_certain() -> None:
    large = Sent(b'"' + FALSE.encode() + b" " * LARGEST + b'"', 9_000)
    assert not large.comparable
    overflow = classify(400, as_bytes({"error": {"message": FALSE}}), large)
    assert overflow is not None
    assert not overflow.agreed


def test_comparing_is_quick() -> None:
    words = " ".join(f"word{n % 977} context length exceeds" for n in range(40_000))
    request = Sent(json.dumps({"messages": [{"content": words}]}).encode()[:LARGEST], 300_000)
    text = "the context length exceeds " * 80
    start = time.perf_counter()
    classify(400, as_bytes({"error": {"message": text}}), request)
    assert time.perf_counter() - start < 0.5
