"""Messages cut into elements and put together again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.dialects.turns import answer, cycle, system, text, use, user
from trimtab.dialects.messages import MESSAGES
from trimtab.dialects.messages.body import placed, role_of
from trimtab.wire.request import Request, Unmanaged


def body(*messages: bytes, **fields: Any) -> bytes:
    listed = [msgspec.Raw(raw) for raw in messages or (user("hi"),)]
    return msgspec.json.encode({"model": "m", "max_tokens": 4_000, "messages": listed, **fields})


def sent(request: Request, kept: list[bytes | msgspec.Raw]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = msgspec.json.decode(MESSAGES.render(request, kept, {}))["messages"]
    return messages


# -- reading -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", ["thread", "container", "compaction"])
def test_what_the_server_holds_is_not_managed(held: str) -> None:
    with pytest.raises(Unmanaged, match=held):
        MESSAGES.decode(body(**{held: {"type": "create"}}))


def test_the_fields_beside_the_messages() -> None:
    request = MESSAGES.decode(body(system=[text("You code.")], tools=[{"name": "Bash"}], stream=True))
    assert (request.max_tokens, request.stream, request.has_tools, request.include_usage) == (4_000, True, True, True)
    assert len(request.extras) == 2
    assert request.context_management is None, "it is the upstream's on this path"


def test_results_and_text_of_one_message_are_elements() -> None:
    request = MESSAGES.decode(body(user("Task."), *cycle(1, "found", 2, text("Go on."))))
    assert [bytes(raw)[:20] for raw in request.messages[2:]] == [
        b'{"type":"tool_result',
        b'{"type":"tool_result',
        b'{"type":"text","text',
    ]


# -- writing -----------------------------------------------------------------------------------------------------


def test_a_message_that_is_whole_keeps_its_bytes() -> None:
    odd = b'{ "content": [{"type":"tool_result","tool_use_id":"toolu_1_0","content":"\\u00e9"}], "role":"user" }'
    raw = body(user("Task."), answer(use(1)), odd)
    request = MESSAGES.decode(raw)
    assert odd in MESSAGES.render(request, list(request.messages), {"x": 1})


def test_what_is_left_of_a_message_comes_together_again() -> None:
    request = MESSAGES.decode(body(user("Task."), *cycle(1, "found", 2), *cycle(2, "too", 2)))
    task, first, a, b, second, c, d = request.messages
    edited = MESSAGES.format.rewrite(b, "cleared", 0)
    found = sent(request, [task, first, a, edited, second, c, d])
    assert [message["role"] for message in found] == ["user", "assistant", "user", "assistant", "user"]
    assert [len(message["content"]) for message in found] == [1, 3 + 1, 2, 4, 2]
    assert found[2]["content"][1]["content"] != "found"


def test_blocks_of_another_message_do_not_make_one_whole() -> None:
    request = MESSAGES.decode(body(user("Task."), *cycle(1, "found", 2), *cycle(2, "too", 2)))
    _, first, a, b, _, c, d = request.messages
    found = sent(request, [first, a, c, d])
    assert [block["tool_use_id"] for block in found[1]["content"]] == ["toolu_1_0"]
    assert [block["tool_use_id"] for block in found[2]["content"]] == ["toolu_2_0", "toolu_2_1"]
    assert b not in (a, c)


S1, S2, U, A = system("one"), system("two"), user("hi"), answer("ho")


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([U, S1, A], [U, S1, A]),
        ([U, S1, U, A], [U, U, S1, A]),
        ([U, S1, U, S2, A, U], [U, U, S1, S2, A, U]),
        ([S1, U, A], [U, S1, A]),
        ([U, A, U, S1], [U, A, U, S1]),
    ],
)
def test_a_system_message_stands_before_an_answer_or_last(messages: list[bytes], expected: list[bytes]) -> None:
    assert placed(messages, role_of) == expected
