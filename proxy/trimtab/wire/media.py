"""How a body is to be read: its media type, its stated length, and what its first bytes show.

Everything that compares a content type, states one, or reads a length takes it from here, so that all of it follows
one rule.
"""

from __future__ import annotations

import re

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
JSON_HEADER = (b"content-type", JSON.encode())
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # UTF-8's; RFC 8259 §8.1 lets a reader of JSON ignore it

EVENTS_HEAD = 9  # bytes that `begins_like_events` needs: a mark, and the longest field name with its colon

_MAX_DIGITS = 18  # of a length: more bytes than anyone sends, and within 64 bits
_COMMENTS = re.compile(rb"(?:%b)?(?:(?::[^\r\n]*)?(?:\r\n|\r|\n))+" % BYTE_ORDER_MARK)
_EVENTS = re.compile(rb"(?:%b)?[\r\n]*(?:data|event|id|retry)?:" % BYTE_ORDER_MARK)


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


def begins_like_events(head: bytes) -> bool:
    """True when a body that begins with `head` is an event stream, however it is labelled. JSON cannot begin so."""
    return _EVENTS.match(head) is not None


def begins_like_json(head: bytes) -> bool:
    """True when a body that begins with `head` is a JSON object or list, however it is labelled. No event stream begins
    so: its lines are fields and comments."""
    return head.removeprefix(BYTE_ORDER_MARK).lstrip()[:1] in (b"{", b"[")


def are_comments(text: bytes) -> bool:
    """True for one or more whole lines of an event stream, all of them comments or blank."""
    return _COMMENTS.fullmatch(text) is not None


def comes_in_lines(content_type: str) -> bool:
    """True for JSON values, one in a line, as Ollama streams them."""
    return media_type(content_type) in ("application/x-ndjson", "application/ndjson", "application/jsonl")
