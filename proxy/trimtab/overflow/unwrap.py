"""Where in an upstream's body the error is: the whole of a 4xx, the marked part of a 200, the failed events of a
stream; JSON, plain text or HTML.

With status 200 only what is marked as an error is read, never the answer itself: a model may well write about prompts
that are too long. `error_body` flattens the part found here.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from trimtab.overflow.error_body import ErrorBody, decode_json, read_error_body
from trimtab.overflow.sent import Sent

_MAX_PLAIN = 16 * 1024  # bytes read of a body that is not JSON: an error names its kind at its start
_MAX_LINES = 256 * 1024  # bytes read of a body that is a stream: its failed event is the first or soon after
_MAX_EVENTS = 32  # events of it that are looked at: each may take milliseconds
_MAX_ITEMS = 8  # items of a list in which an error is looked for

_SUCCESS = frozenset(("", "0", "200", "ok", "success", "none", "null"))
_STREAM_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")
_FAILED = frozenset(("error", "failed", "response.failed"))
# An error under a name of its own, as gateways put it into a 200.
_ERROR_NAMES = (
    *("error", "errors", "error_message", "errormessage", "error_msg", "errormsg", "errmsg", "err_msg", "err"),
    *("error_type", "errortype", "error_description", "error_detail", "error_details", "fault", "faultstring"),
)
_ANSWER_KEYS = frozenset(("choices", "output", "delta", "content", "role", "id", "object", "data", "done"))
_TAG = re.compile(r"<[^<>]{0,500}>")


def unwrap(status: int, body: bytes, sent: Sent | None = None) -> Iterator[ErrorBody]:
    """The errors in a decoded body: none in an answer, one in an error, one in each failed event of a stream.

    What is `sent` is not taken for the upstream's word. Never raises."""
    start = body[:64].lstrip()
    if start.startswith(_STREAM_STARTS):
        yield from islice(_errors_in_stream(status, body, sent), _MAX_EVENTS)
        return
    if status < 400 and is_chunk(body):
        return
    value = decode_json(body)
    if value is not None:
        error = read_error_body([_marked_error(value), value] if status >= 400 else _marked_error(value), sent)
        if error:
            yield error
    elif status >= 400:
        error = read_error_body(_plain_text(body), sent)
        if error:
            yield error
    elif start.startswith(b"{"):
        yield from islice(_errors_in_lines(body, sent), _MAX_EVENTS)


def unwrap_event(data: bytes, sent: Sent | None = None) -> ErrorBody | None:
    """The error in the data of one event of a stream, None for a chunk of an answer. Never raises."""
    return None if is_chunk(data) else read_error_body(_marked_error(decode_json(data)), sent)


def is_chunk(data: bytes) -> bool:
    """True for an answer, or a chunk of one, without an error in it. Found by three byte strings, without decoding:
    what has `choices` and an error too has that error under `error` or `base_resp`."""
    return b'"choices"' in data and b"rror" not in data and b'"base_resp"' not in data


def _errors_in_stream(status: int, body: bytes, sent: Sent | None) -> Iterator[ErrorBody]:
    name = b""
    for raw in body[:_MAX_LINES].splitlines():
        line = raw.strip()
        if line.startswith(b"event:"):
            name = line[6:].strip()
        elif line.startswith(b"data:"):
            failed = status >= 400 or name in (b"error", b"response.failed")
            if not failed and is_chunk(line):
                continue
            value = decode_json(line[5:])
            error = read_error_body(value if failed and not _has_response(value) else _marked_error(value), sent)
            if error:
                yield error
        elif not line:
            name = b""


def _errors_in_lines(body: bytes, sent: Sent | None) -> Iterator[ErrorBody]:
    """One JSON object a line, as Ollama streams them."""
    for line in body[:_MAX_LINES].splitlines():
        error = unwrap_event(line, sent) if b"rror" in line or b'xception"' in line else None
        if error:
            yield error


def _plain_text(body: bytes) -> str:
    """The text of a body that is not JSON, without HTML tags."""
    text = body[:_MAX_PLAIN].decode("utf-8", "replace")
    if "<" in text and "<html" in text[:1000].lower():
        text = html.unescape(_TAG.sub(" ", text))
    return text


def _has_response(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("response"), dict)


def _marked_error(value: Any) -> Any:
    """The part of a 200's body that is marked as an error, or None."""
    if isinstance(value, list):
        return [part for part in map(_marked_error, value[:_MAX_ITEMS]) if part is not None] or None
    if not isinstance(value, dict):
        return None
    value = {key.lower(): item for key, item in value.items()}
    if any(value.get(name) for name in _ERROR_NAMES):
        return value
    response, base, choices = value.get("response"), value.get("base_resp"), value.get("choices")
    if isinstance(response, dict):
        return next((item for key, item in response.items() if key.lower() == "error" and item), None)
    if isinstance(base, dict) and str(base.get("status_code") or "0") not in _SUCCESS:
        return base
    if isinstance(choices, list) and choices:
        return choices[0].get("error") if isinstance(choices[0], dict) else None
    return value if _is_flat_error(value) else _error_in_text(value)


def _error_in_text(value: dict[str, Any]) -> Any:
    """The error in JSON that a member holds as text: {"body": "{\\"error\\": ...}"}. Not in an answer's own members."""
    for key, item in value.items():
        if key not in _ANSWER_KEYS and isinstance(item, str) and item.lstrip().startswith("{") and "rror" in item:
            inner = decode_json(item)
            if isinstance(inner, dict) and (error := _marked_error(inner)) is not None:
                return error
    return None


def _is_flat_error(value: dict[str, Any]) -> bool:
    """True for an error without an `error` around it, by its type, its status, its code, or its message alone."""
    if any(item and key.endswith(("exception", "error")) for key, item in value.items()):
        return True
    if any(str(value.get(key)) in _FAILED for key in ("type", "object", "status")):
        return True
    if value.get("success") is False:
        return True
    code = value.get("code", value.get("error_code", value.get("status_code")))
    has_message = any(isinstance(value.get(key), str) for key in ("msg", "message", "error_msg", "detail"))
    if code is None:
        return has_message and not _ANSWER_KEYS.intersection(value)
    return has_message and str(code).lower() not in _SUCCESS
