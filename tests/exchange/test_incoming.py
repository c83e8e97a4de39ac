"""A request as a plain value."""

from __future__ import annotations

import json

import pytest

from tests.exchange.requests import incoming
from trimtab.dialects.chat import CHAT as DIALECT
from trimtab.errors import BodyTooLarge
from trimtab.exchange.incoming import CHAT, Asks, Bounds, Incoming, first_values
from trimtab.exchange.spellings import paths_of


@pytest.mark.parametrize(
    ("value", "on"),
    [("true", True), (" True ", True), ("1", True), ("yes", True), ("false", False), ("0", False), ("", False)],
)
def test_a_flag_is_on_for_the_usual_words(value: str, on: bool) -> None:
    assert incoming(x_trimtab_bypass=value).asks == Asks(bypass=on)
    assert incoming(x_trimtab_observe=value).asks == Asks(observe=on)
    assert incoming(x_trimtab_explain=value).asks == Asks(explain=on)


def test_without_headers_of_ours_nothing_is_asked() -> None:
    assert incoming(x_trimtab_conversation="c", accept="x").asks == Asks()


def test_names_are_kept_as_they_were_sent() -> None:
    assert incoming(x_trimtab_profile="caf\xe9", x_trimtab_hint="Replan").asks == Asks(profile="caf\xe9", hint="Replan")


def test_the_first_of_repeated_headers_counts_and_any_byte_can_be_read() -> None:
    headers = [(b"a", b"\xff1"), (b"a", b"2")]
    request = Incoming("GET", "/v1/x", "/v1/x", b"", headers, "r", first_values(headers), Asks())
    assert request.header(b"a") == "ÿ1"
    assert request.header(b"b") == ""


@pytest.mark.parametrize("path", ["/v1//chat/completions", "/v1/chat/completions/", "/v1/chat%2Fcompletions", CHAT])
def test_other_spellings_of_a_path_have_one_plain_spelling(path: str) -> None:
    assert paths_of("POST", path.encode())[1] == CHAT


def body(**fields: object) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}], **fields}).encode()


def test_a_long_conversation_is_within_the_bounds() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}
    cycle = [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c"}]
    raw = body(messages=cycle * 49_999)
    Bounds().check_values(raw)
    Bounds().check_messages(DIALECT.decode(raw))


NUMBERS = list(range(200_000))
MANY = {
    "one message": body(messages=[{"role": "user", "content": [NUMBERS] * 3}]),
    "fields of one message": body(messages=[{f"f{i}": i for i in range(400_000)}]),
    "the tools": body(tools=[{f"f{i}": i for i in range(400_000)}]),
    "another field": body(metadata=[NUMBERS] * 3),
    "very many fields": body(metadata=[{f"{i:x}": i for i in range(2_600_000)}]),
    "messages": body(messages=[{"role": "user"}] * 100_001),
}


@pytest.mark.parametrize("raw", MANY.values(), ids=MANY)
def test_no_list_and_no_message_has_more_values_than_are_decoded_at_once(raw: bytes) -> None:
    def check() -> None:
        Bounds().check_values(raw)
        Bounds().check_messages(DIALECT.decode(raw))

    with pytest.raises(BodyTooLarge):
        check()


@pytest.mark.parametrize("tail", [{"content": [NUMBERS] * 3}, {"role": "user"}], ids=["a message", "the tools"])
def test_what_follows_known_messages_is_bounded_too(tail: dict[str, object]) -> None:
    known = {"role": "user", "content": "x" * 600_000}
    tools = {} if "content" in tail else {"tools": [{f"f{i}": i for i in range(400_000)}]}
    raw = body(messages=[known, tail], **tools)
    place = slice(raw.index(b'{"role"'), raw.index(b'{"role"') + len(json.dumps(known)))
    with pytest.raises(BodyTooLarge):
        Bounds().check_messages(DIALECT.decode(raw, [place]))
