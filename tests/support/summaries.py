"""Upstreams that write summaries too, and the configuration that asks them to."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.chat import COMPLETION, WINDOW
from tests.support.scripted import Received, Step, json_reply
from tests.support.summary_models import OPENING

COMPACT = WINDOW + '[compaction]\nmodel = "same"\nmax_summary_tokens = 300\nprecompact_share = 1.0\n'
_ASKS = b"Write the summary of the conversation above"
SUMMARIES = (
    WINDOW + 'prices = { input = 2.0, output = 8.0 }\n[compaction]\nmodel = "writer"\nmax_summary_tokens = 300\n'
)
SUMMARY_TEXT = "The user asks numbered questions about the proxy and wants the first one at the end."


def is_summary(received: Received) -> bool:
    return _ASKS in received.body


def writing(text: str = OPENING + "the budget is 300.", finish: str = "stop") -> Callable[[Received], list[Step]]:
    """An upstream that summarizes when it is asked to, and answers otherwise."""
    message = {"role": "assistant", "content": text}

    def script(received: Received) -> list[Step]:
        if not is_summary(received):
            return json_reply(COMPLETION)
        return json_reply({"choices": [{"finish_reason": finish, "message": message}], "usage": COMPLETION["usage"]})

    return script


def split(asked: list[Received]) -> tuple[list[Received], list[Received]]:
    """The calls of the summarizer, and the others."""
    return [r for r in asked if is_summary(r)], [r for r in asked if not is_summary(r)]


def writing_as_writer(received: Received) -> list[Step]:
    """Answers the summary model and the chat, each as itself."""
    if received.json()["model"] != "writer":
        return json_reply(COMPLETION)
    usage = {"prompt_tokens": 900, "completion_tokens": 60, "total_tokens": 960}
    message = {"role": "assistant", "content": SUMMARY_TEXT}
    return json_reply({**COMPLETION, "choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})
