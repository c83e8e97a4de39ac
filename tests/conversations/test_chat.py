"""Chat: which messages are sent and which are new, and what a stream adds, event by event."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from trimtab.conversations.chat import LEAD, ChatCollector, Joined, asked, joined, stateless
from trimtab.conversations.entries import Held


def raw(role: str, content: Any, **more: Any) -> bytes:
    return msgspec.json.encode({"role": role, "content": content, **more})


SYSTEM, NEWER = raw("system", "be brief"), raw("system", "be long")
U1, A1, U2, A2 = raw("user", "one"), raw("assistant", "1"), raw("user", "two"), raw("assistant", "2")
STORED = [Held(LEAD + "1", SYSTEM), Held("m1", U1), Held("m2", A1)]


def texts(found: Joined) -> tuple[list[bytes], list[bytes]]:
    return found.sent, [item.raw for item in found.new]


JOINED = {
    "a first request": ([], [SYSTEM, U1], [SYSTEM, U1], [SYSTEM, U1]),
    "only what is new": (STORED, [U2], [SYSTEM, U1, A1, U2], [U2]),
    "the same system message again": (STORED, [SYSTEM, U2], [SYSTEM, U1, A1, U2], [U2]),
    "another system message": (STORED, [NEWER, U2], [NEWER, U1, A1, U2], [NEWER, U2]),
    "the whole history again": (STORED, [SYSTEM, U1, A1, U2], [SYSTEM, U1, A1, U2], [U2]),
    "the last answer again": (STORED, [A1, U2], [SYSTEM, U1, A1, U2], [U2]),
    "the same question twice": (STORED, [U1], [SYSTEM, U1, A1, U1], [U1]),
    "a question that is stored already": ([Held("m1", U1)], [U1], [U1], []),
    "the same, as parts": ([Held("m1", U1)], [raw("user", [{"type": "text", "text": "one"}])], [U1], []),
    "a system message in the middle": ([Held("m1", U1)], [U2, SYSTEM], [U1, U2, SYSTEM], [U2, SYSTEM]),
    "what cannot be read": ([], [b"5", b'"x"'], [b"5", b'"x"'], [b"5", b'"x"']),
}  # fmt: skip


@pytest.mark.parametrize(("before", "messages", "sent", "new"), JOINED.values(), ids=JOINED)
def test_the_history_stands_before_what_is_new(
    before: list[Held], messages: list[bytes], sent: list[bytes], new: list[bytes]
) -> None:
    assert texts(joined(before, messages)) == (sent, new)


def test_the_newest_system_message_of_a_request_stands_first_from_then_on() -> None:
    first = joined(STORED, [NEWER, U2])
    later = joined([*STORED, *first.new, Held("m4", A2)], [raw("user", "three")])
    assert later.sent == [NEWER, U1, A1, U2, A2, raw("user", "three")]
    assert [item.id.startswith(LEAD) for item in first.new] == [True, False]


def test_other_fields_keep_their_bytes() -> None:
    request = asked(b'{"model":"m", "temperature": 1.50, "messages":[%b], "x":"\\u00e9"}' % U1)
    assert request is not None
    made = stateless(request, [U1, A1])
    assert made == b'{"model":"m","temperature":1.50,"messages":[%b,%b],"x":"\\u00e9"}' % (U1, A1)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"messages":5}', b"{}", b"\xff", b"[" * 100_000])
def test_what_is_no_chat_is_left_alone(body: bytes) -> None:
    assert asked(body) is None


def collected(*events: Any) -> tuple[list[Any], bool, list[bool]]:
    collector = ChatCollector()
    ends = [collector.feed(event if isinstance(event, bytes) else msgspec.json.encode(event)) for event in events]
    answer = collector.answer()
    return [msgspec.json.decode(item) for item in answer.items], answer.whole, ends


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, "function": {"arguments": arguments, **more.pop("function", {})}, **more}]}


def test_a_stream_of_text_is_one_message() -> None:
    found = collected(delta(role="assistant", content=""), delta(content="Hel"), delta(content="lo"), delta("stop"))
    assert found == ([{"role": "assistant", "content": "Hello"}], True, [False, False, False, True])


def test_parallel_calls_are_put_together() -> None:
    first = call(0, "", id="c1", type="function", function={"name": "read"})
    second = call(1, '{"b"', id="c2", type="function", function={"name": "write"})
    pieces = [delta(**piece) for piece in (first, call(0, '{"a"'), second, call(0, ":1}"), call(1, ":2}"))]
    items, whole, _ = collected(*pieces, delta("tool_calls"))
    assert whole
    assert items == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"function": {"arguments": '{"a":1}', "name": "read"}, "id": "c1", "type": "function"},
                {"function": {"arguments": '{"b":2}', "name": "write"}, "id": "c2", "type": "function"},
            ],
        }
    ]


def test_of_a_stream_that_breaks_off_the_text_is_kept_and_calls_are_not() -> None:
    begun = call(0, '{"a"', id="c1", function={"name": "read"})
    assert collected(delta(content="So f"), delta(**begun)) == (
        [{"role": "assistant", "content": "So f"}],
        False,
        [False] * 2,
    )
    assert collected(delta(role="assistant")) == ([], False, [False])


def test_only_the_first_choice_counts() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "x"}, "finish_reason": "stop"}]}
    assert collected(other, delta(content="y")) == ([{"role": "assistant", "content": "y"}], False, [False, False])


REASONED = [{"type": "reasoning.text", "text": "It is in b.", "signature": "s", "format": "x"}]


def test_reasoning_is_kept_with_the_calls_that_it_led_to() -> None:
    pieces = [
        delta(role="assistant", reasoning_content="It is "),
        delta(reasoning_content="in b."),
        delta(reasoning_details=[{"type": "reasoning.text", "text": "It is ", "format": "x", "index": 0}]),
        delta(reasoning_details=[{"type": "reasoning.text", "text": "in b.", "signature": "s", "index": 0}]),
        delta(**call(0, "{}", id="c1", type="function", function={"name": "read"}, extra_content={"thought": "QQ=="})),
    ]
    (message,), whole, _ = collected(*pieces, delta("tool_calls"))
    assert whole
    assert (message["reasoning_content"], message["reasoning_details"]) == ("It is in b.", REASONED)
    assert message["tool_calls"][0]["extra_content"] == {"thought": "QQ=="}
    collector = ChatCollector()
    collector.read(msgspec.json.encode({"choices": [{"index": 0, "message": message}]}))
    assert msgspec.json.decode(collector.answer().items[0]) == message


def test_reasoning_without_calls_is_not_kept() -> None:
    pieces = [delta(reasoning_content="hm", reasoning_details=REASONED), delta(content="It is b.")]
    assert collected(*pieces, delta("stop"))[0] == [{"role": "assistant", "content": "It is b."}]
    assert collected(*pieces[:1], delta("stop"))[0] == []
    broken = call(0, "{", id="c1", function={"name": "read"})
    assert collected(*pieces, delta(**broken))[0] == [{"role": "assistant", "content": "It is b."}]


def test_what_is_no_chunk_adds_nothing() -> None:
    odd = [b"[DONE]", b"null", b"5", b'{"choices":5}', b'{"choices":[null]}', b"\xff", b'{"choices":[{"delta":null}]}']
    assert collected(*odd) == ([], False, [False] * len(odd))


def test_a_whole_answer_is_kept_without_what_a_request_must_not_have() -> None:
    collector = ChatCollector()
    message = {"role": "assistant", "content": "Hi", "refusal": None, "annotations": [], "audio": None}
    collector.read(msgspec.json.encode({"choices": [{"index": 0, "message": message}]}))
    assert collector.answer().items == [b'{"role":"assistant","content":"Hi"}']
