"""Media types and lengths, as header fields state them."""

from __future__ import annotations

import pytest

from trimtab.wire.media import EVENTS_HEAD, JSON_HEADER, begins_like_events, is_json, media_type, parse_content_length

TYPES = [
    ("application/json", "application/json", True),
    ("Application/JSON; charset=utf-8", "application/json", True),
    (" application/json ;x", "application/json", True),
    ("application/problem+json", "application/problem+json", True),
    ("application/jsonl", "application/jsonl", False),
    ("text/event-stream", "text/event-stream", False),
    ("multipart/form-data; boundary=+json", "multipart/form-data", False),
    ("", "", False),
]


@pytest.mark.parametrize(("stated", "kind", "json"), TYPES)
def test_a_media_type_is_read_without_its_parameters(stated: str, kind: str, json: bool) -> None:
    assert media_type(stated) == kind
    assert is_json(stated) is json


LENGTHS = {b"0": 0, b"17": 17, b"007": 7, b"9" * 18: 10**18 - 1}
NOT_LENGTHS = [b"", b"-1", b"+1", b"1.0", b"0x10", b"1 0", b"1,1", b"9" * 19, "１".encode()]


@pytest.mark.parametrize(("value", "length"), LENGTHS.items())
def test_a_length_is_digits_alone(value: bytes, length: int) -> None:
    assert parse_content_length(value) == length


@pytest.mark.parametrize("value", NOT_LENGTHS)
def test_what_is_not_a_length(value: bytes) -> None:
    assert parse_content_length(value) is None


def test_the_header_of_our_own_bodies() -> None:
    assert JSON_HEADER == (b"content-type", b"application/json")


EVENTS = [b"data: x", b"event: x", b"id:1", b"retry: 5", b": ping", b"\n\ndata: x", b"\xef\xbb\xbfretry: 5"]
OTHERS = [b"", b"{", b'{"data":1}', b'"data":', b"[", b"datax", b"\xef\xbb\xbf{", b"<html>"]


@pytest.mark.parametrize(("body", "events"), [(b, True) for b in EVENTS] + [(b, False) for b in OTHERS])
def test_an_event_stream_is_recognized_by_its_first_bytes(body: bytes, events: bool) -> None:
    assert begins_like_events(body[:EVENTS_HEAD]) is events
