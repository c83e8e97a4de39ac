"""How a body is to be read: its media type, its stated length, and the byte order mark at its start.

Everything that compares a content type, states one, or reads a length takes it from here, so that all of it follows
one rule.
"""

from __future__ import annotations

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
JSON_HEADER = (b"content-type", JSON.encode())
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # UTF-8's; RFC 8259 §8.1 lets a reader of JSON ignore it

_MAX_DIGITS = 18  # of a length: more bytes than anyone sends, and within 64 bits


def media_type(content_type: str) -> str:
    """A Content-Type without its parameters, in lower case: `text/html` for `Text/HTML; charset=utf-8`."""
    return content_type.partition(";")[0].strip().lower()


def is_json(content_type: str) -> bool:
    """True for JSON and for types built on it, such as `application/problem+json` (RFC 6839 §3.1)."""
    kind = media_type(content_type)
    return kind == JSON or kind.endswith("+json")


def parse_content_length(value: bytes) -> int | None:
    """The bytes that a Content-Length states, None when it is not a number (RFC 9110 §8.6: digits alone)."""
    return int(value) if value.isdigit() and len(value) <= _MAX_DIGITS else None
