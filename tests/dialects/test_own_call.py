"""Calls of our own: a question in chat's form becomes one of the dialect, and its answer reads like chat's."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.dialects.turns import text, use
from trimtab.dialects.chat import CHAT
from trimtab.dialects.messages import MESSAGES
from trimtab.dialects.responses import RESPONSES

SYSTEM, QUESTION = {"role": "system", "content": "Summarize."}, {"role": "user", "content": "[a] hi"}
ASKED = {"model": "m", "max_tokens": 90, "messages": [msgspec.Raw(msgspec.json.encode(m)) for m in (SYSTEM, QUESTION)]}


def test_what_is_asked() -> None:
    assert CHAT.asked(ASKED, 90) is ASKED
    found = msgspec.json.decode(msgspec.json.encode(RESPONSES.asked(ASKED, 90)))
    assert found == {
        "model": "m",
        "input": [SYSTEM, QUESTION],
        "max_output_tokens": 90,
        "stream": False,
        "store": False,
    }
    assert MESSAGES.asked(ASKED, 90) == {
        "model": "m",
        "system": "Summarize.",
        "messages": [QUESTION],
        "max_tokens": 90,
        "stream": False,
    }


SAID = [{"type": "output_text", "text": "Done."}]
USAGE = {"input_tokens": 50, "output_tokens": 9}


@pytest.mark.parametrize(
    ("dialect", "answer", "reason", "calls"),
    [
        (RESPONSES, {"output": [{"type": "reasoning"}, {"type": "message", "content": SAID}]}, "stop", 0),
        (RESPONSES, {"output": [{"type": "message", "content": SAID}], "status": "incomplete"}, "length", 0),
        (RESPONSES, {"output": [{"type": "message", "content": SAID}, {"type": "function_call"}]}, "stop", 1),
        (MESSAGES, {"content": [text("Done.")], "stop_reason": "end_turn"}, "stop", 0),
        (MESSAGES, {"content": [text("Done.")], "stop_reason": "max_tokens"}, "length", 0),
        (MESSAGES, {"content": [text("Done."), use(1)], "stop_reason": "end_turn"}, "stop", 1),
    ],
)
def test_what_is_answered(dialect: Any, answer: dict[str, Any], reason: str, calls: int) -> None:
    found = msgspec.json.decode(dialect.answered(msgspec.json.encode({**answer, "usage": USAGE})))
    choice = found["choices"][0]
    assert choice["message"]["content"][0]["text"] == "Done."
    assert (choice["finish_reason"], len(choice["message"]["tool_calls"])) == (reason, calls)
    assert found["usage"] == {"prompt_tokens": 50, "completion_tokens": 9}


@pytest.mark.parametrize("dialect", [RESPONSES, MESSAGES])
def test_what_is_no_answer(dialect: Any) -> None:
    with pytest.raises(msgspec.MsgspecError):
        dialect.answered(b"{}")
