"""The values of a summary call never show what is in them."""

from __future__ import annotations

from trimtab.summaries.completion import Completion, CompletionRequest


def test_neither_text_nor_key_shows() -> None:
    request = CompletionRequest("m", (b"a secret",), 100, b"Bearer sk-secret")
    assert "secret" not in repr([request, Completion("a secret")])


def test_a_request_without_a_ride_has_no_fields_of_the_client() -> None:
    assert CompletionRequest("m", (), 100).fields == {}
