"""Chat completions as a dialect: what is not in `wire.chat` already."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from trimtab.dialects.chat import CHAT


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"max_tokens": 900}, {"max_tokens": 500}),
        ({"max_tokens": 900, "max_completion_tokens": 700}, {"max_tokens": 500, "max_completion_tokens": 500}),
        ({"max_tokens": 100}, {}),
        ({"max_tokens": "900"}, {}),
    ],
)
def test_every_limit_that_is_there_is_lowered(fields: dict[str, Any], expected: dict[str, int]) -> None:
    request = CHAT.decode(msgspec.json.encode({"messages": [], **fields}))
    assert CHAT.capped(request, 500) == expected


def test_a_chunk_always_says_something() -> None:
    assert not CHAT.says_nothing(b'{"choices":[]}')


def test_a_message_reads_as_it_is() -> None:
    assert CHAT.format.as_chat(b'{"role":"user"}') == b'{"role":"user"}'
