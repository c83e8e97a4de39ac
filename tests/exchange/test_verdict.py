"""What the beginning of an answer says, from a real upstream."""

from __future__ import annotations

import msgspec
import pytest

from tests.exchange.requests import inspected
from tests.support.scripted import Script, json_reply, reply, sse_reply
from trimtab.exchange.verdict import ERROR_LIMIT, WHOLE_LIMIT

pytestmark = pytest.mark.anyio

OVERFLOW = {"error": {"message": "maximum context length is 4096 tokens", "code": "context_length_exceeded"}}
ANSWER = {"id": "c", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
EVENT = b'{"id":"c","object":"x","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"a"}}]}'

VERDICTS: list[tuple[str, Script, bool, bool, bool]] = [
    # answer → overflow, read whole, a stream
    ("an overflow", json_reply(OVERFLOW, 400), True, True, False),
    ("one that is compressed", json_reply(OVERFLOW, 400, gzip=True), True, True, False),
    ("one inside a success", json_reply(OVERFLOW, 200), True, True, False),
    ("one inside a stream", sse_reply(msgspec.json.encode(OVERFLOW)), True, False, True),
    ("another error", json_reply({"error": {"message": "no"}}, 400), False, True, False),
    ("an error longer than is read", reply(500, b"x" * (ERROR_LIMIT + 1_000_000)), False, False, False),
    ("an answer", json_reply(ANSWER), False, True, False),
    ("an answer larger than is held", reply(200, b"x" * (WHOLE_LIMIT + 4_000_000)), False, False, False),
    ("a stream", sse_reply(EVENT), False, False, True),
    ("a stream labelled as text", reply(200, b"data: {}\n\n", [(b"content-type", b"text/plain")]), False, False, True),
    ("a stream labelled as nothing", reply(200, b"\n: hello\n\n"), False, False, True),
    ("a stream that is cut small", reply(200, b"event: x\ndata: {}\n\n", split=1), False, False, True),
    ("JSON after empty lines", reply(200, b"\n\n\n\n\n\n\n\n\n\n" + msgspec.json.encode(ANSWER)), False, True, False),
    ("nothing", reply(204), False, True, False),
]


@pytest.mark.parametrize(("_", "script", "overflow", "whole", "stream"), VERDICTS, ids=[row[0] for row in VERDICTS])
async def test_an_answer_is_judged_by_its_beginning(
    _: str, script: Script, overflow: bool, whole: bool, stream: bool
) -> None:
    async with inspected(script) as verdict:
        assert (verdict.overflow is not None, verdict.body is not None, verdict.stream) == (overflow, whole, stream)


WAIT = (
    "Request too large for model m on tokens per minute (TPM): Limit 6000, Requested 14810, reduce your message size."
)


@pytest.mark.parametrize(
    ("script", "heavy"),
    [
        (reply(413, b"<html>413 Request Entity Too Large</html>"), True),
        (json_reply({"error": {"message": "Payload Too Large"}}, 413), True),
        (json_reply({"error": {"message": WAIT, "code": "rate_limit_exceeded"}}, 413), False),
        (json_reply(OVERFLOW, 413), False),
        (json_reply({"error": {"message": "Payload Too Large"}}, 400), False),
    ],
)
async def test_too_many_bytes_is_neither_too_many_tokens_nor_too_many_a_minute(script: Script, heavy: bool) -> None:
    async with inspected(script) as verdict:
        assert verdict.too_many_bytes is heavy
