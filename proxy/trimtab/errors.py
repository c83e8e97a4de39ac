"""The tree of errors. Whatever goes wrong here becomes one of these leaves; the server turns a leaf into
OpenAI's envelope by its `status`, `type`, `param` and `code`. Messages say what to do next and never quote
the conversation or a key.

    TrimtabError
    ├── ConfigError                 the configuration is wrong (commands exit 2, the server does not start)
    ├── RequestError                the client's request: 4xx, nothing was sent upstream
    │   ├── InvalidRequest          400  not JSON, wrong types
    │   ├── Unauthorized            401  client key missing or unknown
    │   ├── UnknownModel            404  no upstream takes this model
    │   ├── UploadTimeout           408  the body stopped coming
    │   ├── BodyTooLarge            413
    │   ├── UnknownEncoding         415  a content-encoding we cannot undo
    │   └── ConversationTooLong     400  system prompt, tools and current question alone do not fit
    ├── UpstreamError               the other side: 5xx
    │   ├── UpstreamUnreachable     502  connection refused, reset, DNS, TLS
    │   └── UpstreamTimeout         504
    └── Overloaded                  503  the configured limit of work in flight is reached
"""

from __future__ import annotations

from typing import Any, ClassVar


class TrimtabError(Exception):
    """Root of the tree. `message` is shown to people; it holds no conversation text and no key."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    code: ClassVar[str | None] = None
    retry: ClassVar[bool] = False

    def __init__(self, message: str, *, param: str | None = None, detail: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.detail = detail or {}


class ConfigError(TrimtabError):
    """The configuration is wrong; the message names the place and the nearest right name."""


class RequestError(TrimtabError):
    status = 400
    type = "invalid_request_error"


class InvalidRequest(RequestError):
    code = "invalid_request"


class Unauthorized(RequestError):
    status = 401
    type = "authentication_error"
    code = "invalid_api_key"


class UnknownModel(RequestError):
    status = 404
    code = "model_not_found"


class UploadTimeout(RequestError):
    status = 408
    code = "request_timeout"


class BodyTooLarge(RequestError):
    status = 413
    code = "request_too_large"


class UnknownEncoding(RequestError):
    status = 415
    code = "unsupported_content_encoding"


class ConversationTooLong(RequestError):
    code = "context_length_exceeded"


class UpstreamError(TrimtabError):
    status = 502
    type = "upstream_error"


class UpstreamUnreachable(UpstreamError):
    code = "upstream_unreachable"
    retry = True


class UpstreamTimeout(UpstreamError):
    status = 504
    code = "upstream_timeout"
    retry = True


class Overloaded(TrimtabError):
    status = 503
    code = "overloaded"
    retry = True
