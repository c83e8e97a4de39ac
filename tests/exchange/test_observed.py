"""What is read of an answer while it is relayed."""

from __future__ import annotations

import msgspec
import pytest

from tests.exchange.requests import inspected
from tests.support.chat import COMPLETION, OVERFLOW
from tests.support.scripted import json_reply
from trimtab.dialects.chat import CHAT
from trimtab.exchange.observed import _ERRORS, Observed, is_uneventful
from trimtab.wire import sse

pytestmark = pytest.mark.anyio

USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\n'
ERROR = b'data: {"error":{"message":"no","code":"broken"}}\n\n'


async def test_a_whole_answer_shows_its_usage_and_an_error_its_code() -> None:
    async with inspected(json_reply(COMPLETION)) as verdict:
        seen = Observed(verdict, CHAT)
        seen.whole(verdict.body or b"")
        assert seen.usage is not None
        assert (seen.usage.prompt, seen.failure) == (COMPLETION["usage"]["prompt_tokens"], None)
    async with inspected(json_reply({"error": {"code": "busy"}}, 503)) as verdict:
        seen = Observed(verdict, CHAT)
        for piece in (b'{"error": {"co', b'de": "busy"}}'):
            seen.piece(piece)
        seen.pieces_ended()
        assert (seen.failure, seen.error_code) == ("upstream_error", "busy")


NO_ERRORS = [
    {**COMPLETION, "usage": None},
    {"object": "response", "status": "completed", "error": None, "output": []},
    {"object": "response", "status": "incomplete", "error": None, "output": []},
    {"type": "message", "role": "assistant", "content": [{"type": "tool_use", "input": {"error": {"code": "x"}}}]},
    {"input_tokens": 14},
]


@pytest.mark.parametrize("answer", NO_ERRORS)
async def test_an_answer_is_no_error_for_a_word_in_it(answer: object) -> None:
    async with inspected(json_reply(answer)) as verdict:
        seen = Observed(verdict, CHAT)
        seen.whole(verdict.body or b"")
        assert (seen.failure, seen.error_code) == (None, "")


async def test_events_show_usage_errors_and_overflows_however_they_are_cut() -> None:
    async with inspected(json_reply({})) as verdict:
        seen, tap = Observed(verdict, CHAT), sse.Tap()
        for byte in USAGE + ERROR:
            assert not [*filter(None, seen.chunk(tap, bytes([byte])))]
            assert not seen.chunk_overflows
        assert seen.usage is not None
        assert (seen.usage.prompt, seen.usage.completion) == (7, 2)
        assert (seen.failure, seen.error_code, seen.overflow) == ("upstream_error", "broken", False)
        assert seen.event(msgspec.json.encode(OVERFLOW)) is not None
        assert seen.overflow


async def test_a_chunk_that_shows_nothing_is_known_at_a_glance() -> None:
    assert is_uneventful(b'data: {"choices":[{"delta":{"content":"no error here"}}]}\n\n')
    null = b'data: {"choices":[{"delta":{"content":"a"}}],"usage":null}\n\n'
    assert is_uneventful(null)
    assert is_uneventful(null + null)
    assert not is_uneventful(null + USAGE)
    assert not [chunk for chunk in (USAGE, ERROR, b"data: half") if is_uneventful(chunk)]
    assert not [word for word in _ERRORS if is_uneventful(b"data: " + word + b"\n\n")]
