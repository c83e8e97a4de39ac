"""A request as a plain value."""

from __future__ import annotations

import pytest

from tests.exchange.requests import incoming
from trimtab.exchange.incoming import CHAT, Incoming, first_values, plain_path


@pytest.mark.parametrize(
    ("value", "on"),
    [("true", True), (" True ", True), ("1", True), ("yes", True), ("false", False), ("0", False), ("", False)],
)
def test_a_flag_is_on_for_the_usual_words(value: str, on: bool) -> None:
    assert incoming(x_flag=value).flag(b"x-flag") is on


def test_a_flag_that_is_not_there_is_off() -> None:
    assert not incoming().flag(b"x-flag")


def test_the_first_of_repeated_headers_counts_and_any_byte_can_be_read() -> None:
    headers = [(b"a", b"\xff1"), (b"a", b"2")]
    request = Incoming("GET", "/v1/x", "/v1/x", b"", headers, "r", first_values(headers))
    assert request.header(b"a") == "ÿ1"
    assert request.header(b"b") == ""


@pytest.mark.parametrize("path", ["/v1//chat/completions", "/v1/chat/completions/", "/v1/chat%2Fcompletions", CHAT])
def test_other_spellings_of_a_path_have_one_plain_spelling(path: str) -> None:
    assert plain_path(path) == CHAT
