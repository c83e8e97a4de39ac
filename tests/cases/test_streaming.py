"""Streams: relayed as they are. `tests/faults/test_streams.py` has every form and fault; here are the reported ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.case import case
from tests.cases.trial import tried
from tests.support.conversations import chat
from tests.support.scripted import STALL, Pause, chunk, json_reply
from tests.support.streams import BEGUN, END, STREAMS, streamed

pytestmark = pytest.mark.anyio

CASES = {
    "B014": "unknown fields of a delta pass",
    "B038": "events without choices, or that are no objects, break nothing",
    "B040": "an error within a 200 passes, and is counted as one",
    "B121": "no stream is ever rebuilt",
    "B125": "no timeout of our own, and comments to a client that waits (tests/faults/test_streams.py)",
    "B128": "a stream that stalls ends in an error event, never in [DONE]",
    "B135": "no space after the colon",
    "B137": "bare CR",
    "B138": "no [DONE] is made up",
    "B139": "fragments, several data lines, a last event that is cut off",
}
ASKED: dict[str, Any] = {"model": "m", "stream": True, "messages": chat(1)}


def raw(id: str) -> bytes:
    """The stream of a case."""
    found = case(id)
    text = found.get("upstream_sse_raw") or "".join(found["upstream_sse"])
    return str(text).encode()


@pytest.mark.parametrize("id", ["B014", "B038", "B040", "B135", "B137", "B138"])
@pytest.mark.parametrize("split", [0, 1, 5])
async def test_the_reported_stream_passes_byte_for_byte(id: str, split: int) -> None:
    trial = await tried(ASKED, streamed(raw(id), split))
    assert (trial.answer.status, trial.answer.body) == (200, raw(id))
    assert trial.line["outcome"] == ("upstream_error" if id == "B040" else "passed")


ERRORS_IN_200: dict[str, tuple[str, Any]] = {
    "chat": ("chat/completions", {"error": {"message": "no worker", "code": 502, "type": "server_error"}}),
    "chat, a text": ("chat/completions", {"error": "no worker"}),
    "chat, in its choice": (
        "chat/completions",
        {"choices": [{"index": 0, "error": {"code": 502}, "finish_reason": "error"}], "usage": {"prompt_tokens": 9}},
    ),
    "chat, by a status": ("chat/completions", {"choices": None, "base_resp": {"status_code": 1000, "status_msg": "x"}}),
    "responses": (
        "responses",
        {"object": "response", "status": "failed", "error": {"code": "server_error"}, "output": []},
    ),
    "messages": ("messages", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
}


@pytest.mark.parametrize("name", ERRORS_IN_200)
async def test_an_error_in_one_piece_within_a_200_is_counted_as_one(name: str) -> None:
    path, error = ERRORS_IN_200[name]
    asked = {"model": "m", "max_tokens": 9, ("input" if path == "responses" else "messages"): ASKED["messages"][1:]}
    trial = await tried(asked, json_reply(error), path=f"/v1/{path}")
    assert (trial.answer.status, trial.answer.json()) == (200, error)
    assert (trial.line["outcome"], trial.line["upstream_status"]) == ("upstream_error", 200)
    assert 'outcome="upstream_error"} 1' in trial.metrics
    assert "usage_ignored" not in trial.log


async def test_an_error_that_only_its_event_names_is_counted_as_one() -> None:
    stream = raw("B138") + b'event: error\ndata: {"message": "no worker"}\n\n'
    trial = await tried(ASKED, streamed(stream, 0))
    assert (trial.answer.body, trial.line["outcome"]) == (stream, "upstream_error")


@pytest.mark.parametrize(
    "name", ["unknown events", "data over several lines", "an event cut off at the end", "not JSON"]
)
async def test_what_is_not_understood_is_not_rebuilt(name: str) -> None:
    trial = await tried(ASKED, streamed(STREAMS[name], 1))
    assert trial.answer.body == STREAMS[name]


async def test_a_stream_that_stalls_ends_in_an_error_event() -> None:
    events = [chunk(b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n')] * 3
    trial = await tried(ASKED, [BEGUN, *events, STALL], toml="read_timeout_s = 0.3\n")
    assert trial.answer.body.count(b"data: ") == 4
    assert b"upstream_timeout" in trial.answer.body
    assert b"[DONE]" not in trial.answer.body


async def test_a_long_silence_before_the_first_token_is_waited_for() -> None:
    for script in ([Pause(0.8), *streamed(raw("B138"), 0)], [BEGUN, Pause(0.8), chunk(raw("B138")), END]):
        assert (await tried(ASKED, script)).answer.body == raw("B138")


async def test_an_answer_that_is_no_stream_passes_where_a_stream_was_asked_for() -> None:
    answer = {"choices": [], "usage": None}
    assert (await tried(ASKED, json_reply(answer))).answer.json() == answer
