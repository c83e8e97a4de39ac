"""Our errors in OpenAI's envelope."""

from __future__ import annotations

import json

import pytest

from trimtab import errors
from trimtab.wire import problem
from trimtab.wire.sse import Tap


def test_the_envelope_has_the_four_fields_and_the_detail() -> None:
    error = errors.ConversationTooLong(
        "It does not fit: start a new chat.", param="messages", detail={"limit": 8192, "code": "mine"}
    )
    assert json.loads(problem.envelope(error, request_id="req-1")) == {
        "error": {
            "message": "It does not fit: start a new chat.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
            "limit": 8192,
            "request_id": "req-1",
        }
    }


HEADERS = [
    (errors.InvalidRequest("x"), [(b"x-should-retry", b"false")]),
    (errors.ConversationTooLong("x"), [(b"x-should-retry", b"false")]),
    (errors.Unauthorized("x"), [(b"x-should-retry", b"false"), (b"www-authenticate", b"Bearer")]),
    (errors.Overloaded("x"), [(b"retry-after", b"1")]),
    (errors.UpstreamUnreachable("x"), []),
    (errors.UpstreamTimeout("x"), []),
]


@pytest.mark.parametrize(("error", "expected"), HEADERS, ids=lambda value: type(value).__name__)
def test_headers_state_whether_to_retry(error: errors.TrimtabError, expected: list[tuple[bytes, bytes]]) -> None:
    assert problem.headers(error) == [(b"content-type", b"application/json"), *expected]


def test_a_broken_stream_ends_with_an_error_event_and_without_done() -> None:
    error = errors.UpstreamUnreachable("The upstream 'a'\nbroke off: try again.")
    (data,) = Tap().feed(problem.sse_event(error))
    assert json.loads(data)["error"]["code"] == "upstream_unreachable"
    assert b"[DONE]" not in problem.sse_event(error)


def leaves(kind: type[errors.TrimtabError]) -> list[type[errors.TrimtabError]]:
    return [kind, *(leaf for sub in kind.__subclasses__() for leaf in leaves(sub))]


@pytest.mark.parametrize("kind", leaves(errors.TrimtabError), ids=lambda kind: kind.__name__)
def test_every_error_of_the_tree_has_an_envelope(kind: type[errors.TrimtabError]) -> None:
    fields = json.loads(problem.envelope(kind("what to do")))["error"]
    assert set(fields) == {"message", "type", "param", "code"}
    assert all(isinstance(value, bytes) for pair in problem.headers(kind("x")) for value in pair)


CODES: list[tuple[str, bytes, str]] = [
    ("OpenAI", b'{"error":{"message":"m","type":"invalid_request_error","code":"invalid_api_key"}}', "invalid_api_key"),
    ("Anthropic", b'{"type":"error","error":{"type":"overloaded_error","message":"m"}}', "overloaded_error"),
    ("Google", b'{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"m"}}', "RESOURCE_EXHAUSTED"),
    ("a sentence", b'{"error":{"code":"the question was why","type":"why is that so?"}}', ""),
    ("a long word", b'{"error":{"code":"' + b"x" * 65 + b'"}}', ""),
    ("no object", b'{"error":"invalid_api_key"}', ""),
    ("no error", b'{"code":"x"}', ""),
    ("no JSON", b"\xff", ""),
    ("nothing", b"", ""),
]


@pytest.mark.parametrize(("_", "body", "code"), CODES, ids=[row[0] for row in CODES])
def test_the_code_of_an_upstreams_error_is_a_name_or_nothing(_: str, body: bytes, code: str) -> None:
    assert problem.code_of(body) == code


def test_an_error_in_a_stream_that_has_begun_is_the_upstreams() -> None:
    late = problem.rejected_late(429, b'{"error":{"message":"Slow down.","code":"rate_limited"}}')
    fields = json.loads(problem.envelope(late))["error"]
    assert (fields["message"], fields["code"]) == ("Slow down. (The upstream's status: 429.)", "rate_limited")
    assert fields["upstream_status"] == late.answered == 429
