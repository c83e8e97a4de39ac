"""What is context inside a user message, and what stays of the message when it is cut."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages import prose, user
from trimtab.context.apply.goal import context_chars
from trimtab.context.apply.rewrite import rewrite
from trimtab.context.texts import TRUNCATED
from trimtab.dialects.messages import MESSAGES
from trimtab.dialects.responses import RESPONSES

GOAL = "Which of these fails, and why?"
LONG = prose(3_000).strip()
TAGGED = f"Here is the log.\n<context>\n{LONG}\n</context>\n{GOAL}"


def text(value: str, kind: str = "text", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "text": value, **fields}


FOUND: dict[str, tuple[Any, int, int]] = {
    # content, characters marked, characters with a guess
    "no mark": (GOAL, 0, 0),
    "one paragraph before the goal": (f"{LONG}\n\n{GOAL}", 0, len(LONG)),
    "blank lines with spaces, and at the end": (f"{LONG}\n \t\n\n{GOAL}\n\n", 0, len(LONG)),
    "line ends of Windows": (f"{LONG}\r\n\r\n{GOAL}\r\n", 0, len(LONG)),
    "several paragraphs": (f"a\n\nb\n\n{GOAL}", 0, len("a\n\nb")),
    "nothing before the last paragraph": (f"\n\n{GOAL}", 0, 0),
    "empty": ("", 0, 0),
    "parts": ([text(LONG), text(f"b\n\n{GOAL}")], 0, len(LONG) + 1),
    "a marked part": ([text(LONG, context=True), text(f"a\n\n{GOAL}")], len(LONG), len(LONG)),
    "a mark that says no": ([text(LONG, context=False), text(GOAL)], 0, len(LONG)),
    "a mark that is no truth value": ([text(LONG, context="yes"), text(GOAL)], 0, len(LONG)),
    "an image between": ([text(LONG, context=True), {"type": "image_url"}, text(GOAL)], len(LONG), len(LONG)),
    "tags": (TAGGED, len(LONG), len(LONG)),
    "tags on the lines of the text": (f"<context>{LONG}</context>\n{GOAL}", len(LONG), len(LONG)),
    "two pieces": (f"<context>\na\n</context>\nand\n  <context>\nbb\n</context> \n{GOAL}", 3, 3),
    "a tag within a sentence": (f"The tag <context> opens.\n</context>\n\n{GOAL}", 0, 35),
    "a tag that is not closed": (f"<context>\n{LONG}\n\n{GOAL}", 0, len(LONG) + 10),
    "nothing between the tags": (f"<context>\n</context>\n\n{GOAL}", 0, 20),
    "Russian": (f"<context>\nЖурнал сборки\n</context>\n{GOAL}", 13, 13),
    "Chinese": ("今日は良い天気です。\n\n何が壊れていますか？", 0, 10),
    "not a content": (None, 0, 0),
}


@pytest.mark.parametrize(("content", "marked", "guessed"), FOUND.values(), ids=FOUND)
def test_what_is_context(content: Any, marked: int, guessed: int) -> None:
    raw = user(content)
    assert context_chars(raw, guess=False) == marked
    assert context_chars(raw, guess=True) == guessed


def trimmed(content: Any, chars: int) -> Any:
    return msgspec.json.decode(rewrite(user(content), "trimmed", chars))["content"]


def test_head_and_tail_of_the_context_are_kept_and_the_goal_word_for_word() -> None:
    cut = trimmed(TAGGED, 300)
    opening, rest = cut.split("<context>\n")
    inside, goal = rest.split("\n</context>\n")
    assert (opening, goal) == ("Here is the log.\n", GOAL)
    assert 250 < len(inside) <= 300
    first, last = inside.split(f"\n{TRUNCATED}\n")
    assert LONG.startswith(first)
    assert LONG.endswith(last)
    assert trimmed(f"{LONG}\n\n{GOAL}", 300).endswith(f"\n\n{GOAL}")
    assert trimmed(f"{LONG}\n\n{GOAL}", 0) == f"{TRUNCATED}\n\n{GOAL}"


def test_long_pieces_give_way_to_short_ones() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.invalid/a.png"}}
    cut = trimmed([text("short", context=True), text(LONG, context=True), image, text(GOAL)], 205)
    assert cut[0] == text("short", context=True)  # the mark goes when the message is sent
    assert 150 < len(cut[1]["text"]) <= 200
    assert cut[2:] == [image, text(GOAL)]


@given(st.text(max_size=80), st.text(min_size=1, max_size=40), st.integers(0, 120))
def test_what_comes_after_the_context_is_never_changed(before: str, goal: str, chars: int) -> None:
    content = f"<context>\n{before}\n</context>\n{goal}"
    assert trimmed(content, chars).endswith(f"</context>\n{goal}")
    last = goal.replace("\n", " ").replace("\r", " ").strip() or "?"
    whole = f"{before}\n\n{last}"
    if "<context>" not in whole:
        assert trimmed(whole, chars).endswith(last)


def test_a_text_full_of_tags_is_read_once() -> None:
    """What takes a square of its length here would run into the limit of the test."""
    assert context_chars(user("<context>\n" * 200_000), guess=False) == 0
    assert context_chars(user("<context> " * 200_000 + "</context> x" * 100_000), guess=False) == 0


def test_the_other_formats_cut_the_same() -> None:
    item = msgspec.json.encode(
        {"role": "user", "content": [text(LONG, "input_text", context=True), text(GOAL, "input_text")]}
    )
    cut = msgspec.json.decode(RESPONSES.format.rewrite(item, "trimmed", 300))["content"]
    assert len(cut[0]["text"]) <= 300
    assert cut[1] == text(GOAL, "input_text")
    message = user([text(LONG, context=True), text(GOAL)])
    assert msgspec.json.decode(MESSAGES.format.rewrite(message, "trimmed", 300))["content"][1] == text(GOAL)
    block = msgspec.json.encode(text(LONG, context=True))  # beside the results of a user message
    assert context_chars(block, guess=False) == len(LONG)
    assert len(msgspec.json.decode(MESSAGES.format.rewrite(block, "trimmed", 300))["text"]) <= 300
