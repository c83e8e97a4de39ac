"""From a decision to the bytes that go upstream."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.exchange.requests import WINDOW, shaping
from tests.support.conversations import agent_run, chat, prose
from trimtab.context.policy import Policy, ShapingSettings
from trimtab.context.read.history import history
from trimtab.context.read.memo import Memo
from trimtab.context.texts import PLACEHOLDER
from trimtab.dialects.chat import CHAT
from trimtab.exchange.decide import decide
from trimtab.exchange.outgoing import outgoing, without_marks
from trimtab.limits import Limit
from trimtab.wire.chat import decode


def sent(made: Any, summary: str | None = None, *, include_usage: bool = False) -> Any:
    return msgspec.json.decode(outgoing(made, summary, "system", include_usage=include_usage))


def test_what_fits_goes_out_as_the_very_bytes_received() -> None:
    made = shaping(chat(2), seed=1)
    assert outgoing(made, None, "system", include_usage=False) is made.request.body


MARKED = b"""{"model": "m", "n": 1.0,
  "messages": [ {"role": "user", "pinned": true, "content": "\\u00e9 \\"pinned\\": true" } ,
                {"role": "assistant", "content": [{"pinned": true}], "pinned": %s},
                {"role": "user", "content": "pinned"} ] }"""


@pytest.mark.parametrize("value", [b"true", b"false", b"null", b'{"pinned": [1, "x"]}'])
def test_a_mark_is_cut_out_and_every_other_byte_stays(value: bytes) -> None:
    body = MARKED % value
    left = body.replace(b'"pinned": true, "content": "', b'"content": "').replace(b', "pinned": ' + value, b"")
    assert without_marks(decode(body), CHAT) == left
    memo, read = Memo(), decode(body)
    made = decide(read, history(read.messages, read.extras, memo), Policy(), WINDOW, 1.0, memo)
    assert outgoing(made, None, "system", include_usage=False) == left


def test_a_mark_goes_also_where_the_messages_are_hard_to_find() -> None:
    escaped = b'{"model": "m", "mess\\u0061ges": [{"role": "user", "p\\u0069nned": true, "content": "x"}]}'
    assert msgspec.json.decode(without_marks(decode(escaped), CHAT))["messages"] == [{"role": "user", "content": "x"}]


def test_only_the_edited_messages_of_a_request_are_new() -> None:
    messages = agent_run(30)
    made = shaping(messages, vendor={"x": 1e21})
    body = sent(made)
    edited = {edit.index for edit in made.plan.edits}
    assert body["vendor"] == {"x": 1e21}
    assert edited
    assert [i for i, m in enumerate(body["messages"]) if m != messages[i]] == sorted(edited)
    assert all(body["messages"][i]["content"] == PLACEHOLDER for i in edited)


@pytest.mark.parametrize(
    ("options", "becomes"),
    [
        ({}, {"include_usage": True}),
        ({"stream_options": None}, {"include_usage": True}),
        ({"stream_options": {"x": 1}}, {"x": 1, "include_usage": True}),
        ({"stream_options": {"include_usage": False}}, {"include_usage": True}),
    ],
)
def test_include_usage_is_set_beside_the_clients_own_options(options: dict[str, Any], becomes: Any) -> None:
    assert sent(shaping(chat(1), stream=True, **options), include_usage=True)["stream_options"] == becomes


@pytest.mark.parametrize(
    ("field", "stays"),
    [({"edits": []}, False), ({"strategy": "theirs"}, True), ([{"type": "compaction"}], True)],
)
def test_a_context_management_for_this_proxy_is_taken_out_and_any_other_is_not(field: Any, stays: bool) -> None:
    body = sent(shaping(chat(1), context_management=field))
    assert ("context_management" in body) is stays


@pytest.mark.parametrize(
    ("fields", "lowered"),
    [
        ({"max_tokens": 4_000}, {"max_tokens"}),
        ({"max_completion_tokens": 4_000}, {"max_completion_tokens"}),
        ({"max_tokens": 4_000, "max_completion_tokens": 3_900}, {"max_tokens", "max_completion_tokens"}),
        ({"max_tokens": 100, "max_completion_tokens": 4_000}, {"max_completion_tokens"}),
        ({"max_tokens": "100", "max_completion_tokens": 4_000}, {"max_completion_tokens"}),
        ({"max_tokens": 4_000, "max_completion_tokens": 3_900.0}, {"max_tokens"}),
        ({"max_tokens": 500}, set()),
        ({}, set()),
    ],
)
def test_an_output_that_does_not_fit_beside_the_input_is_lowered_and_no_history_goes(
    fields: dict[str, int], lowered: set[str]
) -> None:
    limit = Limit(context_size=8_192, max_output_tokens=1_024, source="configured")
    made = shaping([{"role": "user", "content": prose(5_500)}], limit=limit, **fields)
    body = sent(made)
    assert not made.plan.edits
    assert {name for name, value in fields.items() if body[name] < value} == lowered
    assert all(5_500 + body[name] <= 8_192 for name in lowered)
    assert set(body) == {"model", "messages", *fields}


def test_under_always_a_request_that_fits_is_cut_too() -> None:
    rules = ShapingSettings(truncate="always", max_message_chars=100)
    body = sent(shaping([{"role": "user", "content": "go"}, *agent_run(1)[2:], *chat(0)], rules=rules))
    assert body["messages"][2]["content"].endswith("[Truncated]")
    assert body["messages"][0] == {"role": "user", "content": "go"}
