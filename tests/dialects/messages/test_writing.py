"""One element after an edit."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.dialects.turns import answer, result, text, thought, use, user
from trimtab.context.texts import PLACEHOLDER
from trimtab.dialects.messages import MESSAGES

FORMAT = MESSAGES.format
encode = msgspec.json.encode


def after(raw: bytes, stage: Any, amount: int = 0) -> Any:
    return msgspec.json.decode(FORMAT.rewrite(raw, stage, amount))


def test_clearing_keeps_everything_but_the_content() -> None:
    block = result(1, [text("x" * 500)], is_error=True, cache_control={"type": "ephemeral"})
    assert after(encode(block), "cleared") == {**block, "content": PLACEHOLDER}


@pytest.mark.parametrize("stage", ["truncated", "squeezed"])
def test_texts_are_cut(stage: str) -> None:
    assert len(after(encode(text("x" * 900)), stage, 300)["text"]) <= 300
    assert len(after(encode(result(1, "x" * 900)), stage, 300)["content"]) <= 300
    assert len(after(user("x" * 900), stage, 300)["content"][0]["text"]) <= 300


def test_an_input_stays_an_object_and_thinking_stays_as_it_is() -> None:
    raw = answer(thought(1), "y" * 900, use(1, command="z" * 900, timeout=5))
    thinking, words, call = after(raw, "squeezed", 300)["content"]
    assert thinking == thought(1)
    assert len(words["text"]) <= 300
    assert call["input"]["timeout"] == 5
    assert len(call["input"]["command"]) < 900
    assert after(raw, "inputs_cleared")["content"][2]["input"] == {}


def test_payloads_become_words() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 4_000}}
    assert after(encode(result(1, [image])), "lightened")["content"][0]["type"] == "text"


def test_thinking_is_taken_out_whole_and_nothing_is_left_empty() -> None:
    assert msgspec.json.decode(FORMAT.unbind(answer(thought(1), "Look.", use(1)))) == msgspec.json.decode(
        answer("Look.", use(1))
    )
    assert msgspec.json.decode(FORMAT.unbind(answer(thought(1))))["content"]


@pytest.mark.parametrize(("role", "expected"), [("system", "user"), ("user", "user"), ("assistant", "assistant")])
def test_messages_of_our_own(role: str, expected: str) -> None:
    assert msgspec.json.decode(FORMAT.message(role, "Note.")) == {"role": expected, "content": [text("Note.")]}


def test_a_text_joins_a_message_or_a_block() -> None:
    assert msgspec.json.decode(FORMAT.join_text(user("hi"), "Note.", before=False)) == {
        "role": "user",
        "content": [text("hi"), text("Note.")],
    }
    assert msgspec.json.decode(FORMAT.join_text(encode(text("hi")), "Note.", before=True)) == text("Note.\n\nhi")
    assert FORMAT.announce is None
