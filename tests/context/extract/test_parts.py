"""A message as the texts that excerpts are cut from."""

from __future__ import annotations

import pytest

from tests.support.messages import calls, system
from trimtab.context.extract.parts import content_text, one_line, parts


def test_parts_are_the_text_and_what_each_call_was_given() -> None:
    made = parts(calls("a", "b", name="edit", arguments='{"path": "a.py", "to": {"line": 3}}', content="So."))
    assert [(p.kind, p.text) for p in made] == [
        ("assistant", "So."),
        ("call", "path: a.py\nline: 3"),
        ("call", "path: a.py\nline: 3"),
    ]
    assert made[1].title == "edit(a.py)"


@pytest.mark.parametrize("raw", [b"[]", b"1", b'{"role": 1}', b'{"role": "user", "tool_calls": 3}', system("s")])
def test_what_is_no_message_has_no_parts(raw: bytes) -> None:
    assert parts(raw) == []


def test_unreadable_arguments_are_text() -> None:
    assert parts(calls("a", arguments='{"path": "a'))[1].text == '{"path": "a'


def test_content_of_parts_is_their_text() -> None:
    assert content_text([{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]) == "a\nb"
    assert content_text(None) == ""
    assert one_line(" a\n\t b ") == "a b"
