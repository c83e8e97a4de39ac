"""The tree of errors. Everything that can go wrong ends in one of these leaves, and `wire.problem` turns a leaf into
OpenAI's error envelope by its `status`, `type`, `param` and `code`.

A message says what is wrong, where, and what to do next. It never quotes the conversation or a key.

    TrimtabError
    ├── ConfigError                 the configuration is wrong (commands exit 2, the server does not start)
    ├── RequestError                the client's request: 4xx, nothing was sent upstream
    │   ├── InvalidRequest          400  not JSON, wrong types
    │   ├── Unauthorized            401  the client key is missing or unknown
    │   ├── Forbidden               403  a page of ours, asked for from where it is not shown
    │   ├── UnknownModel            404  no upstream serves this model
    │   ├── NotKept                 404  an exchange or a conversation that is no longer kept
    │   ├── NotStored               404  no conversation, response or item of this id
    │   ├── Conflict                409  another request of the same conversation is under way
    │   ├── UploadTimeout           408  the client stopped sending its body
    │   ├── BodyTooLarge            413  more bytes than are allowed
    │   ├── UpgradeRefused          426  a WebSocket; HTTPS is served
    │   ├── UnknownEncoding         415  a content-encoding that is not supported
    │   └── ConversationTooLong     400  system prompt, tools and current question alone do not fit
    ├── UpstreamError               the upstream: 5xx
    │   ├── RejectedLate            –    it answered with an error where the client's stream had begun
    │   ├── UpstreamUnreachable     502  connection refused, reset, DNS, TLS
    │   └── UpstreamTimeout         504  no connection, or no bytes, in time
    ├── StoreUnavailable            503  the store of conversations does not answer
    └── Overloaded                  503  too many requests or bytes in flight
"""

from __future__ import annotations

from typing import Any, ClassVar


class TrimtabError(Exception):
    """Root of the tree. `message` is shown to people, `param` names the field that is wrong, `detail` is added to the
    envelope. `status` is the HTTP status; `retry` is True when the same request may succeed later."""

    status: ClassVar[int] = 500
    type: str = "server_error"
    code: str | None = None
    retry: ClassVar[bool] = False

    def __init__(self, message: str, *, param: str | None = None, detail: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.detail = detail or {}


class ConfigError(TrimtabError):
    """The configuration is wrong. The message names the place, and the nearest valid name."""


class RequestError(TrimtabError):
    """The client's request cannot be served. Nothing was sent upstream."""

    status = 400
    type = "invalid_request_error"


class InvalidRequest(RequestError):
    """The request is malformed: its JSON, its types, its headers or its path."""

    code = "invalid_request"


class Unauthorized(RequestError):
    """The key a client must send is missing or unknown."""

    status = 401
    type = "authentication_error"
    code = "invalid_api_key"


class Forbidden(RequestError):
    """The pages are not shown to where the request comes from."""

    status = 403
    type = "permission_error"
    code = "forbidden"


class NotKept(RequestError):
    """An exchange or a conversation that the pages no longer have, or its text."""

    status = 404
    code = "not_kept"


class UnknownModel(RequestError):
    """No configured upstream serves the model of the request."""

    status = 404
    code = "model_not_found"


class NotStored(RequestError):
    """No conversation, response or item of this id is stored for this tenant."""

    status = 404
    code = "not_found"


class Conflict(RequestError):
    """Another request of the same conversation is under way, or has changed it meanwhile."""

    status = 409
    code = "conversation_locked"
    retry = True


class UploadTimeout(RequestError):
    """The client stopped sending its body. It may send it again."""

    status = 408
    code = "request_timeout"
    retry = True


class BodyTooLarge(RequestError):
    """The body has more bytes than are allowed, as sent or once decoded."""

    status = 413
    code = "request_too_large"


class UpgradeRefused(RequestError):
    """The client asked for another protocol than HTTP."""

    status = 426
    code = "upgrade_required"


class UnknownEncoding(RequestError):
    """The body has a content-encoding that is not supported."""

    status = 415
    code = "unsupported_content_encoding"


class ConversationTooLong(RequestError):
    """System prompt, tools and the current question alone do not fit into the budget."""

    code = "context_length_exceeded"


class UpstreamError(TrimtabError):
    """The upstream failed, or its answer cannot be used. `retries`: tries of the same call that failed before;
    `reached`: it may have got the request."""

    status = 502
    type = "upstream_error"
    retries = 0
    reached = True


class RejectedLate(UpstreamError):
    """The upstream answered with an error after the client's stream had begun. `message` and `code` are the upstream's,
    `answered` is its status."""

    answered = 0


class UpstreamUnreachable(UpstreamError):
    """The connection failed: it was refused or reset, or DNS or TLS failed."""

    code = "upstream_unreachable"
    retry = True


class UpstreamTimeout(UpstreamError):
    """The upstream accepted no connection, or sent nothing, within its timeout."""

    status = 504
    code = "upstream_timeout"
    retry = True


class StoreUnavailable(TrimtabError):
    """The store of conversations does not answer, and the request needs it."""

    status = 503
    code = "store_unavailable"
    retry = True


class Overloaded(TrimtabError):
    """The configured limit of work in flight is reached."""

    status = 503
    code = "overloaded"
    retry = True
