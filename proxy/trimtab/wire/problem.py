"""Our own errors on the wire: OpenAI's envelope, as a response body and as an event of a stream.

    {"error": {"message": …, "type": …, "param": …, "code": …, …detail}}

SDKs raise their typed exceptions from it, and obey `x-should-retry`. A stream that fails ends with one event that holds
the same object, and without `[DONE]`, so that a client does not take half an answer for a whole one.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from trimtab.errors import Overloaded, RejectedLate, TrimtabError, Unauthorized
from trimtab.wire import sse
from trimtab.wire.media import JSON_HEADER

_RETRY_AFTER_S = 1  # seconds: requests in flight end all the time, so there is room again soon


def envelope(error: TrimtabError, request_id: str | None = None) -> bytes:
    """The JSON body. An error's `detail` is added beside the four known fields and cannot replace them."""
    return msgspec.json.encode({"error": _fields(error, request_id)}, enc_hook=str)


def headers(error: TrimtabError) -> list[tuple[bytes, bytes]]:
    """The headers of that body: its type, and whether and when to retry."""
    pairs = [JSON_HEADER]
    if error.status < 500 and not error.retry:
        pairs.append((b"x-should-retry", b"false"))
    if isinstance(error, Overloaded):
        pairs.append((b"retry-after", b"%d" % _RETRY_AFTER_S))
    if isinstance(error, Unauthorized):
        pairs.append((b"www-authenticate", b"Bearer"))  # RFC 9110 §15.5.2
    return pairs


def sse_event(error: TrimtabError, request_id: str | None = None) -> bytes:
    """The event that ends a stream whose headers have been sent."""
    return sse.event(envelope(error, request_id))


_CODE = re.compile(r"[A-Za-z][\w.-]{0,63}", re.ASCII)


class _Envelope(msgspec.Struct):
    error: Any = None


def code_of(body: bytes) -> str:
    """The code of an error in OpenAI's envelope, as an upstream wrote it: the first of its `code`, `status` and `type`
    that is a name. "" for anything else: a sentence could quote the conversation, and this is logged. Never raises.

        {"error": {"message": …, "type": "invalid_request_error", "code": "invalid_api_key"}}  ->  "invalid_api_key"
        {"type": "error", "error": {"type": "overloaded_error", "message": …}}                 ->  "overloaded_error"
    """
    error = _error_in(body)
    found = (error.get(name) for name in ("code", "status", "type")) if isinstance(error, dict) else ()
    return next((code for code in found if isinstance(code, str) and _CODE.fullmatch(code)), "")


def rejected_late(status: int, body: bytes) -> RejectedLate:
    """The error for an upstream's error that a stream which has begun ends with. Never raises."""
    error = _error_in(body)
    message = error.get("message") if isinstance(error, dict) else error
    said = message if isinstance(message, str) and message else "The upstream answered with an error."
    late = RejectedLate(f"{said} (The upstream's status: {status}.)", detail={"upstream_status": status})
    late.answered, late.code = status, code_of(body) or None
    return late


def _error_in(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body, type=_Envelope).error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _fields(error: TrimtabError, request_id: str | None) -> dict[str, Any]:
    known = {"message": error.message, "type": error.type, "param": error.param, "code": error.code}
    named = {} if request_id is None else {"request_id": request_id}
    return {**known, **{k: v for k, v in error.detail.items() if k not in known}, **named}
