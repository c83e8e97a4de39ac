"""Where in an upstream's body the error lies: the whole of a 4xx, the marked part of a 200, the failed events
of a stream; JSON, plain text or HTML.

With status 200 only what is marked as an error is read, never the answer itself: a model may well write about
prompts that are too long. `complaint` takes the part apart.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

from trimtab.overflow.error_body import MAX_JSON, Complaint, complaint_of, decode

MAX_PLAIN = 16 * 1024  # bytes read of a body that is not JSON: an error says what it is at its start

_SUCCESS = frozenset(("", "0", "200", "ok", "success", "none", "null"))
_STREAM_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")
_FAILED = frozenset(("error", "failed", "response.failed"))
_ANSWER_KEYS = frozenset(("choices", "output", "delta", "content", "role", "id", "object", "data", "done"))
_TAG = re.compile(r"<[^<>]{0,500}>")


def unwrap(status: int, body: bytes) -> Iterator[Complaint]:
    """The complaints in a decoded body: none in an answer, one in an error, one in each failed event of a
    stream."""
    start = body[:64].lstrip()
    if start.startswith(_STREAM_STARTS):
        yield from _of_stream(status, body)
        return
    if status < 400 and is_chunk(body):
        return
    value = decode(body)
    if value is not None:
        complaint = complaint_of([_marked(value), value] if status >= 400 else _marked(value))
        if complaint:
            yield complaint
    elif status >= 400:
        complaint = complaint_of(_plain(body))
        if complaint:
            yield complaint
    elif start.startswith(b"{"):
        yield from _of_lines(body)


def unwrap_event(data: bytes) -> Complaint | None:
    """The complaint in the data of one event of a stream, None for a chunk of an answer."""
    return None if is_chunk(data) else complaint_of(_marked(decode(data)))


def is_chunk(data: bytes) -> bool:
    """Whether this is plainly an answer, or a part of one, told by three byte strings and without decoding: what
    has `choices` and carries an error all the same has it under `error` or `base_resp`."""
    return b'"choices"' in data and b"rror" not in data and b'"base_resp"' not in data


def _of_stream(status: int, body: bytes) -> Iterator[Complaint]:
    name = b""
    for raw in body[:MAX_JSON].splitlines():
        line = raw.strip()
        if line.startswith(b"event:"):
            name = line[6:].strip()
        elif line.startswith(b"data:"):
            failed = status >= 400 or name in (b"error", b"response.failed")
            if not failed and is_chunk(line):
                continue
            value = decode(line[5:])
            complaint = complaint_of(value if failed and not _has_response(value) else _marked(value))
            if complaint:
                yield complaint
        elif not line:
            name = b""


def _of_lines(body: bytes) -> Iterator[Complaint]:
    for line in body[:MAX_JSON].splitlines():
        complaint = unwrap_event(line) if b'rror"' in line or b'xception"' in line else None
        if complaint:
            yield complaint


def _plain(body: bytes) -> str:
    text = body[:MAX_PLAIN].decode("utf-8", "replace")
    if "<" in text and "<html" in text[:1000].lower():
        text = html.unescape(_TAG.sub(" ", text))
    return text


def _has_response(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("response"), dict)


def _marked(value: Any) -> Any:
    """The part of a 200's body that is marked as an error, or None."""
    if isinstance(value, list):
        return [part for part in map(_marked, value[:8]) if part is not None] or None
    if not isinstance(value, dict):
        return None
    value = {key.lower(): item for key, item in value.items()}
    if value.get("error") or value.get("errors"):
        return value
    response, base, choices = value.get("response"), value.get("base_resp"), value.get("choices")
    if isinstance(response, dict):
        return next((item for key, item in response.items() if key.lower() == "error" and item), None)
    if isinstance(base, dict) and str(base.get("status_code") or "0") not in _SUCCESS:
        return base
    if isinstance(choices, list) and choices:
        return choices[0].get("error") if isinstance(choices[0], dict) else None
    return value if _flat_failure(value) else None


def _flat_failure(value: dict[str, Any]) -> bool:
    if any(item and key.endswith(("exception", "error")) for key, item in value.items()):
        return True
    if any(str(value.get(key)) in _FAILED for key in ("type", "object", "status")):
        return True
    if value.get("success") is False:
        return True
    code = value.get("code", value.get("error_code", value.get("status_code")))
    said = any(isinstance(value.get(key), str) for key in ("msg", "message", "error_msg", "detail"))
    if code is None:
        return said and not _ANSWER_KEYS.intersection(value)
    return said and str(code).lower() not in _SUCCESS
