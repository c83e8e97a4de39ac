"""An answer of nothing is an overflow where the prompt left no room for it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.overflow.samples import as_bytes
from trimtab.overflow.empty import empty_answer, empty_stream
from trimtab.overflow.sent import Sent

WINDOW = Sent(input_tokens=7_900, window=8_192)
SMALL = Sent(input_tokens=900, window=8_192)


def answer(reason: Any, message: Any = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": message or {"role": "assistant", "content": ""}, "finish_reason": reason}
    return {"id": "c", "choices": [choice | more.pop("choice", {})], **more}


def message(content: Any, reason: str, **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": content, "stop_reason": reason, **more}


def response(output: Any, reason: str, **more: Any) -> dict[str, Any]:
    why = {"reason": reason}
    return {"object": "response", "status": "incomplete", "incomplete_details": why, "output": output, **more}


NO_TEXT = {"type": "output_text", "text": ""}
NOTHING = {"prompt_tokens": 8_192, "completion_tokens": 0}
CASES: list[tuple[dict[str, Any], Sent, bool]] = [
    (answer("model_context_window_exceeded"), SMALL, True),
    (answer("context_length_exceeded"), SMALL, True),
    (answer("model_length"), SMALL, True),  # Mistral
    (answer("stop", choice={"native_finish_reason": "MAX_CONTEXT"}), SMALL, True),
    (answer("model_context_window_exceeded", {"content": "partial"}), SMALL, False),
    (answer("model_context_window_exceeded"), Sent(input_tokens=20_000), True),
    (answer("model_context_window_exceeded"), Sent(input_tokens=6_000), False),  # to a window that is a guess
    (answer("length", usage=NOTHING), Sent(input_tokens=20_000), False),
    (answer("length", usage=NOTHING), WINDOW, True),
    (answer("length", usage=NOTHING), SMALL, True),  # it was more than was thought
    (answer("length"), WINDOW, True),
    (answer("length", {"role": "assistant", "content": None}, usage=NOTHING), WINDOW, True),
    (answer("length", usage={"prompt_tokens": 900, "completion_tokens": 0}), SMALL, False),
    (answer("length", usage={"prompt_tokens": 8_000, "completion_tokens": 192}), WINDOW, False),  # it thought
    (answer("length", {"content": "", "tool_calls": [{}]}, usage=NOTHING), WINDOW, False),
    (answer("length", {"content": "", "reasoning_content": "hm"}, usage=NOTHING), WINDOW, False),
    (answer("length", usage=NOTHING), Sent(b"", 7_900, 1, 8_192), False),
    (answer("stop", usage=NOTHING), WINDOW, False),
    (answer(None, usage=NOTHING), WINDOW, False),
    (message([], "model_context_window_exceeded"), SMALL, True),
    (message([], "max_tokens", usage={"input_tokens": 100, "cache_read_input_tokens": 8_092}), SMALL, True),
    (message([], "max_tokens", usage={"input_tokens": 900, "output_tokens": 0}), SMALL, False),
    (message([{"type": "text", "text": ""}], "max_tokens"), WINDOW, True),
    (message([{"type": "thinking", "thinking": ""}], "max_tokens"), WINDOW, False),
    (message([{"type": "text", "text": "a"}], "model_context_window_exceeded"), WINDOW, False),
    (message([], "max_tokens", usage={"output_tokens": 5}), WINDOW, False),
    (message([], "end_turn"), WINDOW, False),
    (response([], "max_output_tokens"), WINDOW, True),
    (response([], "context_length_exceeded"), SMALL, True),
    (response([{"type": "message", "content": [NO_TEXT]}], "max_output_tokens"), WINDOW, True),
    (response([{"type": "reasoning", "summary": []}], "max_output_tokens"), WINDOW, False),
    (response([], "max_output_tokens", usage={"output_tokens": 3}), WINDOW, False),
    (response([], "content_filter"), WINDOW, False),
    (answer("length", usage=NOTHING) | {"x": "finish_reason" * 100_000}, WINDOW, False),  # much too large for one
    ({"choices": []}, WINDOW, False),
    ({"choices": None, "finish_reason": "length"}, WINDOW, False),
]


@pytest.mark.parametrize(("body", "sent", "empty"), CASES)
def test_an_answer_of_nothing(body: dict[str, Any], sent: Sent, empty: bool) -> None:
    assert (empty_answer(as_bytes(body), sent) is not None) is empty


@pytest.mark.parametrize(
    "body", [b"", b"finish_reason", b'{"finish_reason":', b"[1]", b'{"choices":[3],"finish_reason":1}']
)
def test_no_body_raises(body: bytes) -> None:
    assert empty_answer(body, WINDOW) is None


ROLE = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
WORD = {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]}


def stopped(reason: str) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}}


CREATED = {"type": "response.created", "response": {"status": "in_progress", "output": []}}
STARTED = {"type": "message_start", "message": {"usage": {"input_tokens": 8_192, "output_tokens": 1}, "content": []}}
PING = {"type": "ping"}
TEXT = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
STREAMS: list[tuple[list[Any], bool, bool]] = [
    # events, whether it is known what they are, an overflow
    ([ROLE], False, False),
    ([ROLE, END], True, True),
    ([ROLE, END, {"choices": [], "usage": NOTHING}], True, True),
    ([ROLE, END, {"choices": [], "usage": {"prompt_tokens": 8_000, "completion_tokens": 9}}], True, False),
    ([ROLE, WORD], True, False),
    ([ROLE, WORD, END], True, False),
    ([CREATED], False, False),
    ([CREATED, {"type": "response.incomplete", "response": response([], "max_output_tokens")}], True, True),
    ([CREATED, {"type": "response.output_item.added"}], True, False),
    ([CREATED, {"type": "response.failed", "response": {}}], True, False),
    ([STARTED, PING], False, False),
    ([STARTED, stopped("max_tokens"), {"type": "message_stop"}], True, True),
    ([STARTED, stopped("end_turn")], True, False),
    ([STARTED, TEXT, {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}}], True, False),
    ([STARTED, {"type": "content_block_start", "content_block": {"type": "tool_use"}}], True, False),
    ([3], True, False),
]


@pytest.mark.parametrize(("events", "known", "overflow"), STREAMS)
def test_a_stream_of_nothing(events: list[Any], known: bool, overflow: bool) -> None:
    found = empty_stream([as_bytes(event) for event in events], WINDOW)
    assert (found[0], found[1] is not None) == (known, overflow)
